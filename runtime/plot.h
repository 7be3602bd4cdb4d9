/* plot: --plot, pictures of what --metrics has written. */
#pragma once

/* Draws loss and metrics over the steps, a panel for each of them, of n files of --metrics (JSON lines or CSV): an SVG file at svg, or NULL: text on stdout. Returns the exit code, after saying on stderr
 * what went wrong. */
int plot(const char *svg, int n, char *const *paths);
