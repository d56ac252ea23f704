// What a process was given when it was started: which signals it ignores, and its three standard streams.
#pragma once

#include <csignal>

namespace paceline {

// `signals` without those that this process ignores, as SIGHUP under nohup and SIGINT in a script's background. Linux
// queues a blocked signal for a signalfd even where it is ignored, so such a signal must not be blocked.
sigset_t without_ignored(sigset_t signals);

// Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed. Otherwise the next files and sockets get these
// numbers, and what is meant for the terminal is written into them. Call it first thing in main().
void open_closed_standard_streams();

}  // namespace paceline
