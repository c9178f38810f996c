// The `diptych` program.

#include "cli/app.h"

int main(int argc, char** argv) { return diptych::cli::run_app(argc, argv); }
