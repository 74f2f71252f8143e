#pragma once

namespace serac {

// From here on the calling thread, and the threads that it starts, take no signals but those of their own faults: another thread takes them.
void leaveSignals();

// From here on only the first SIGINT or SIGTERM reaches the handlers that were asked for with process.on; a later one ends the process at once, as if
// nobody had asked. What comes within a fifth of a second counts as the same. For signals without a handler nothing changes.
void endAtSecondSignal();

}  // namespace serac
