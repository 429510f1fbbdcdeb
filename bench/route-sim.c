/* The report of the router's policies as a program of its own; see src/route/sim/report.h. */
#include "route/sim/report.h"

int main(int argc, char **argv)
{
        return simulate_main(argc, argv);
}
