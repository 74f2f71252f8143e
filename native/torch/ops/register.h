// Registration of serac's own operators with libtorch's dispatcher.
#pragma once

namespace serac {

// Registers every `serac::` operator. Call it once a process: a second registration makes libtorch throw.
void registerOperators();

}  // namespace serac
