// For test programs that use the gRPC transport, under the thread sanitizer: gRPC's libraries are not built for it, so
// it does not see how they hand things from thread to thread. What is left is our own code, which it still checks.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:grpc::\nrace:^grpc\nrace:libgrpc\nrace:libgpr\nrace:libabsl\nrace:^gpr_\n";
}
#endif
