#pragma once

namespace serac {

// From here on the calling thread, and the threads that it starts, take no signals but those of their own faults: another thread takes them.
void leaveSignals();

}  // namespace serac
