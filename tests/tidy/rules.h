// What the tree promises about itself, one function a promise. Each gives the places that break it, as
// "path:line: what is wrong".
//
// Threading: functions of their argument.
#pragma once

#include <string>
#include <vector>

#include "source_file.h"

namespace muster::tidy {

using Findings = std::vector<std::string>;

Findings HeadersSayHowTheyAreThreaded(const SourceFile& file);
Findings FilesAreShort(const SourceFile& file);
Findings FunctionsAreShort(const SourceFile& file);
Findings NothingIsLeftToDo(const SourceFile& file);
Findings NoTestIsHidden(const SourceFile& file);
Findings ExceptionsStayInAdapters(const SourceFile& file);
Findings AccountingIsInIntegers(const SourceFile& file);
Findings IncludesPointDown(const SourceFile& file);
Findings HeavyHeadersStayInSources(const SourceFile& file);
Findings MemoryOrdersAreExplained(const SourceFile& file);
Findings DrawsAreInOrder(const SourceFile& file);
Findings LocksAreStandard(const SourceFile& file);
Findings NoPathOfSomeMachine(const SourceFile& file);
Findings WhitespaceIsPlain(const SourceFile& file);

}  // namespace muster::tidy
