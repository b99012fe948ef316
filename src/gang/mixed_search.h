// Places for gangs of several shapes; see muster/gang/machine_search.h.
#pragma once

#include "muster/gang/machine_search.h"

namespace muster::gang {

SearchResult SearchSeveralShapes(const BookSnapshot& book, const GangRequest& request);

}  // namespace muster::gang
