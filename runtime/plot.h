/* plot: --plot, draws what --metrics has written. */
#pragma once

/* Draws loss and metrics over the steps, a panel for each, of n files of --metrics (JSON lines or CSV): as an SVG file at svg, or NULL: as text on stdout. Returns the exit code, after printing on stderr
 * what went wrong. */
int plot(const char *svg, int n, char *const *paths);
