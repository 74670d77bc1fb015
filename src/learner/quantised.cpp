#include "learner/quantised.h"

#include <memory>

#include "base/threads.h"

namespace qrl::learner {

namespace {

Tensor decoded_weight(const ops::PackedLinear& packed) {
  const Tensor weight = torch::empty({packed.out, packed.in});
  base::parallel(0, [&](base::Team& team) {
    const base::Range mine = team.slice(packed.out);
    ops::unpack_rows(packed, mine.begin, mine.size(), weight.data_ptr<float>() + mine.begin * packed.in);
  });
  return weight;
}

Tensor decoded_input(const ops::Activations& codes, torch::ScalarType compute) {
  const Tensor x = torch::empty({codes.max_rows(), codes.width});
  base::parallel(0, [&](base::Team& team) { ops::decode(team, codes, {0, codes.max_rows()}, x.data_ptr<float>()); });
  return x.to(compute);
}

Tensor bias_of(const ops::PackedLinear& packed) {
  return torch::from_blob(packed.bias.as<float>(), {packed.out}, torch::kFloat32);
}

}  // namespace

Tensor quantised_linear(const Tensor& x, const Weight& master, const Quantised& quantised) {
  const ops::PackedLinear& packed = *quantised.packed;
  const std::int64_t num_rows = x.size(0);
  const auto codes = std::make_shared<ops::Activations>(packed.format, num_rows, packed.in);
  Tensor y;
  if (quantised.real_product) y = torch::empty({num_rows, packed.out});
  base::parallel(0, [&](base::Team& team) {
    ops::encode(team, x.data_ptr<float>(), {0, num_rows}, *codes);
    team.barrier();
    if (y.defined()) ops::linear(team, *codes, packed, {0, num_rows}, false, y.data_ptr<float>());
  });
  if (!quantised.real_product) {
    y = times_transposed(decoded_input(*codes, quantised.compute), decoded_weight(packed), torch::kFloat32);
    if (!packed.bias.empty()) y += bias_of(packed);
  }
  return differentiable({x}, {y}, [codes, master, quantised](const TensorList& d) {
    const Tensor d_y = d[0].to(quantised.compute).contiguous();
    accumulate_weight_gradient(d_y, decoded_input(*codes, quantised.compute), master.gradient);
    return TensorList{times(d_y, decoded_weight(*quantised.packed), torch::kFloat32)};
  })[0];
}

}  // namespace qrl::learner
