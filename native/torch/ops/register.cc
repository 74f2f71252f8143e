#include "torch/ops/register.h"

#include "torch/ops/common.h"

namespace serac {

// Every operator is defined with one kernel for all backends; the kernels choose by device themselves and bring their own gradients.
void registerOperators() {
  static torch::Library operators(torch::Library::DEF, "serac", {}, __FILE__, __LINE__);
  registerSwoosh(operators);
  registerGradientHelpers(operators);
  registerBiasNorm(operators);
  registerBalancer(operators);
  registerWhiten(operators);
  registerSoftmax(operators);
  registerDropout(operators);
  registerActivationDropoutLinear(operators);
  registerMutualInformation(operators);
  registerDepthwise(operators);
  registerScaledAdam(operators);
  registerBmm(operators);
  registerLinear(operators);
  registerResidual(operators);
  registerPickLogProbs(operators);
  registerJoiner(operators);
  registerGlu(operators);
  registerGatedConv(operators);
  registerGatedAttend(operators);
  registerBypass(operators);
  registerDownsample(operators);
  registerAttention(operators);
  registerConv2d(operators);
  registerFeedforward(operators);
}

}  // namespace serac
