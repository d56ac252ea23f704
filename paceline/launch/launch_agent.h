// What runs on another host for a launcher: `paceline launch --agent`. Takes its orders from standard input and reports
// on standard output (launch_protocol.h). When standard input ends, or it is told to end, its ranks are killed.
#pragma once

namespace paceline {

int run_launch_agent();  // the exit code of the process

}  // namespace paceline
