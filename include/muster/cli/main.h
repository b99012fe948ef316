// The `muster` command.
//
//   muster run            the service, until SIGTERM
//   muster release        hands the Jobs over to Kueue
//   muster check-config   reads a configuration and lists every error in it
//   muster policies       prints the admission policies that a configuration asks for
//   muster version
//
// Exit codes: 0 all well (run: stopped on request, everything written, lease released; release: no record is left) ·
// 1 failed while running (leadership lost, an address in use, no way to the API server, a stop that took too long,
// a release that was cut short) · 2 wrong use: flags or configuration.
//
// Threading: call it once, from the main thread.
#pragma once

namespace muster::cli {

int Main(int argc, const char* const* argv);

}  // namespace muster::cli
