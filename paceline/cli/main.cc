// paceline: the command line with what is built in.
#include "paceline/command_line.h"

int main(int argc, char** argv) { return paceline::command_line(argc, argv, {}); }
