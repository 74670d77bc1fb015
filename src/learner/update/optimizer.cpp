#include "learner/update/optimizer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "cuda/train/training.h"
#include "learner/device/device_quantized.h"
#include "learner/forward/quantized.h"
#include "learner/tensors/host_copies.h"
#include "learner/update/muon.h"
#include "model/block.h"
#include "ops/training.h"

namespace qrl::learner {

namespace {

/// Returns the ranges to update, in the same order on every rank. Ranks exchange a range's updated weights while they
/// update the next range. If exchanges cannot overlap updates, returns a single range, so that CPU threads update more
/// Muon matrices at once.
std::vector<GradientRange> turns(const Parameters& parameters, const RankTensors& ranks) {
  const ParameterLayout& layout = parameters.layout();
  if (!layout.is_sharded() || !ranks.copies_beside_work()) return {layout.all()};
  std::vector<GradientRange> all = {layout.others()};  // embedding and lm_head first: their copies take longest
  for (std::size_t layer = 0; layer < parameters.policy().layers.size(); ++layer) all.push_back(layout.layer(layer));
  return all;
}

std::vector<MuonMatrix> muon_matrices(const Parameters& parameters, const GradientRange& range) {
  std::vector<MuonMatrix> matrices;
  const ParameterLayout& layout = parameters.layout();
  const FlatBuffers& flat = parameters.flat();
  std::size_t num_tensors = 0;
  for (const Placement& each : layout.placements()) {
    if (!layout.is_mine(each) || !layout.is_muons(each) || !range.holds(each.offset)) continue;
    const Tensor moment = flat.exp_avg.narrow(0, each.owned_offset, each.spec.shape.numel());
    for (const model::StoredPart& part : stored_parts(each.spec)) {
      const auto matrix = [&](const Tensor& all) {
        return all.view({-1}).narrow(0, part.first, part.shape.numel()).view({part.shape[0], part.shape[1]});
      };
      matrices.push_back({matrix(flat.master(each)), matrix(flat.gradient(each)), matrix(moment), num_tensors});
    }
    ++num_tensors;
  }
  return matrices;
}

template <class Args>
void set_constants(const AdamwSegment& segment, const OptimizerOptions& optim, const OptimizerStep& step, Args& args) {
  const auto updates = static_cast<double>(step.num_updates + 1);
  args.lr = static_cast<float>(step.lr);
  args.beta1 = static_cast<float>(optim.betas[0]);
  args.beta2 = static_cast<float>(optim.betas[1]);
  args.eps = static_cast<float>(optim.eps);
  args.weight_decay = static_cast<float>(segment.decays ? optim.weight_decay : 0);
  args.first_correction = static_cast<float>(1 / (1 - std::pow(optim.betas[0], updates)));
  args.second_correction = static_cast<float>(1 / (1 - std::pow(optim.betas[1], updates)));
  args.gradient_scale = static_cast<float>(step.gradient_scale);
}

struct AdamwTensors {
  AdamwTensors(const Parameters& parameters, const AdamwSegment& segment)
      : weights(parameters.flat().masters.narrow(0, segment.owned_offset, segment.count)),
        gradients(parameters.flat().gradients.narrow(0, segment.offset, segment.count)),
        exp_avg(parameters.flat().exp_avg.narrow(0, segment.owned_offset, segment.count)),
        exp_avg_sq(parameters.flat().exp_avg_sq.narrow(0, segment.owned_offset - parameters.layout().num_muons(),
                                                       segment.count)) {}
  Tensor weights, gradients, exp_avg, exp_avg_sq;
};

/// Updates a segment's weights, and the copies that the forward pass reads.
void adamw_by_kernel(const Parameters& parameters, const AdamwSegment& segment, const OptimizerOptions& optim,
                     const OptimizerStep& step) {
  for (const auto& [range, values] : parameters.copies_of({segment.offset, segment.count})) {
    const std::int64_t first = range.begin - segment.offset;
    const AdamwTensors on(parameters, {range.begin, segment.owned_offset + first, range.count, segment.decays});
    cuda::AdamwTask task{on.weights.data_ptr<float>(), on.gradients.data_ptr<float>(), on.exp_avg.data_ptr<float>(),
                         on.exp_avg_sq.data_ptr<float>()};
    if (values.defined()) {
      task.copy = values.data_ptr();
      task.copy_is_f32 = values.scalar_type() == torch::kFloat32;
    }
    task.count = range.count;
    set_constants(segment, optim, step, task);
    parameters.options().kernels->adamw(task, {stream_on(parameters.options().device)});
  }
}

void adamw(const Parameters& parameters, const AdamwSegment& segment, const OptimizerOptions& optim,
           const OptimizerStep& step) {
  if (parameters.options().kernels != nullptr) return adamw_by_kernel(parameters, segment, optim, step);
  AdamwTensors on(parameters, segment);
  if (parameters.options().torch_ops) {
    on.gradients.mul_(step.gradient_scale);
    const Tensor num_updates = torch::full({}, static_cast<double>(step.num_updates + 1), on.weights.options());
    at::_fused_adamw_({on.weights}, {on.gradients}, {on.exp_avg}, {on.exp_avg_sq}, {}, {num_updates}, step.lr,
                      optim.betas[0], optim.betas[1], segment.decays ? optim.weight_decay : 0, optim.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
    on.gradients.zero_();
    return;
  }
  ops::AdamW args;
  set_constants(segment, optim, step, args);
  ops::adamw_step(args, segment.count, on.weights.data_ptr<float>(), on.gradients.data_ptr<float>(),
                  on.exp_avg.data_ptr<float>(), on.exp_avg_sq.data_ptr<float>());
}

/// Computes each tensor's sum of squared gradients. Other ranks' tensors keep 0.
void squares_by_kernel(const Parameters& parameters, std::vector<double>& squares) {
  const std::vector<Placement>& placements = parameters.layout().placements();
  const torch::Device& device = parameters.options().device;
  std::vector<cuda::TensorSpan> spans;
  std::vector<std::size_t> tensors;
  std::int64_t num_parts = 0;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    if (!parameters.layout().is_mine(placements[i])) continue;
    const std::int64_t count = placements[i].spec.shape.numel();
    spans.push_back({placements[i].offset, count, num_parts});
    tensors.push_back(i);
    num_parts += (count + cuda::kSquaresPart - 1) / cuda::kSquaresPart;
  }
  const auto num_bytes = static_cast<std::int64_t>(spans.size() * sizeof(cuda::TensorSpan));
  const Tensor sent = send({{spans.data(), torch::kUInt8, {num_bytes}}}, device)[0];
  const Tensor of_parts = torch::empty({num_parts}, torch::TensorOptions().dtype(torch::kFloat64).device(device));
  parameters.options().kernels->squares(
      {parameters.flat().gradients.data_ptr<float>(), reinterpret_cast<const cuda::TensorSpan*>(sent.data_ptr()),
       static_cast<std::int64_t>(spans.size()), num_parts, of_parts.data_ptr<double>()},
      {stream_on(device)});
  const Arrival arrival(of_parts);
  arrival.wait();
  const double* part = arrival.values().data_ptr<double>();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const std::int64_t end = i + 1 < spans.size() ? spans[i + 1].first_part : num_parts;
    for (std::int64_t at = spans[i].first_part; at < end; ++at) squares[tensors[i]] += part[at];
  }
}

/// Returns the checkpoint's name of the first part of `tensor` (for example, an expert) with a non-finite gradient.
/// Collective when sharded.
std::string non_finite_part(const Parameters& parameters, const Placement& tensor, dist::Collectives& world) {
  const std::vector<model::StoredPart> parts = stored_parts(tensor.spec);
  if (parts.size() == 1) return parts.front().name;
  std::vector<double> is_broken(parts.size(), 0);
  if (parameters.layout().is_mine(tensor)) {
    const Tensor values = parameters.flat().gradient(tensor);
    for (std::size_t i = 0; i < parts.size(); ++i)
      is_broken[i] = values.narrow(0, parts[i].first, parts[i].shape.numel()).isfinite().all().item<bool>() ? 0 : 1;
  }
  if (parameters.layout().is_sharded()) world.all_reduce_sum(is_broken);
  const auto first = std::find_if(is_broken.begin(), is_broken.end(), [](double broken) { return broken > 0; });
  return first == is_broken.end() ? tensor.spec.name : parts[static_cast<std::size_t>(first - is_broken.begin())].name;
}

}  // namespace

std::function<void(std::size_t)> GradientSums::from_backward() {
  if (ranks_.size() == 1 || !ranks_.sums_during_backward()) return {};
  return [this](std::size_t layer) {
    const torch::NoGradGuard no_grad;
    begin_layer(layer);
  };
}

void GradientSums::rotate(std::size_t layer) {
  const LayerWeights& weights = parameters_.policy().layers[layer];
  model::visit_matrices(
      parameters_.config(), static_cast<std::int64_t>(layer),
      [&](const model::BlockMatrix&, const auto& of) { rotate_gradient(of(weights)); },
      [&](const model::BlockExperts& experts, const auto& of) {
        for (std::int64_t expert = 0; expert < experts.count; ++expert) rotate_gradient(of(weights).of(expert));
      });
}

void GradientSums::gather() {
  if (was_rotated_back_) {  // if false, gradients are zero or still rotated
    for (std::size_t layer = 0; layer < parameters_.policy().layers.size(); ++layer) rotate(layer);
  }
  is_rotated_ = true;
  was_rotated_back_ = false;
}

void GradientSums::rotate_back() {
  if (!is_rotated_) return;
  for (std::size_t layer = 0; layer + num_begun_ < parameters_.policy().layers.size(); ++layer) rotate(layer);
  is_rotated_ = false;
  was_rotated_back_ = true;
}

void GradientSums::begin_layer(std::size_t layer) {
  const std::size_t num_layers = parameters_.policy().layers.size();
  QRL_INVARIANT(layer + num_begun_ + 1 == num_layers, "gradients' sums", "layers from the last to the first",
                "layer " + std::to_string(layer) + " after " + std::to_string(num_begun_));
  if (is_rotated_) rotate(layer);
  begin(parameters_.layout().layer(layer));
  ++num_begun_;
}

void GradientSums::begin(const GradientRange& range) {
  std::vector<dist::Part> parts;
  if (parameters_.layout().is_sharded()) parts = parameters_.layout().parts(range);
  ranks_.begin_sum(parameters_.flat().gradients.narrow(0, range.begin, range.count), parts);
}

void GradientSums::end() {
  rotate_back();
  was_rotated_back_ = false;  // the update zeroes all gradients
  if (ranks_.size() == 1) return;
  for (std::size_t left = parameters_.policy().layers.size() - num_begun_; left > 0; --left) begin_layer(left - 1);
  begin(parameters_.layout().others());
  ranks_.end_sums();
  num_begun_ = 0;
}

GradientNorm gradient_norm(const Parameters& parameters, dist::Collectives& world) {
  const ParameterLayout& layout = parameters.layout();
  const std::vector<Placement>& placements = layout.placements();
  std::vector<double> squares(placements.size(), 0);
  if (parameters.options().kernels != nullptr) {
    squares_by_kernel(parameters, squares);
  } else if (parameters.options().torch_ops) {
    const Tensor on_device = torch::zeros({static_cast<std::int64_t>(squares.size())},
                                          parameters.flat().gradients.options().dtype(torch::kFloat64));
    for (std::size_t i = 0; i < squares.size(); ++i) {
      if (!layout.is_mine(placements[i])) continue;
      const Tensor values = parameters.flat().gradient(placements[i]);
      on_device[static_cast<std::int64_t>(i)].copy_(
          at::linalg_vector_norm(values, 2, at::OptionalIntArrayRef(), false, torch::kFloat64).square());
    }
    const Tensor host = on_device.cpu();
    std::copy_n(host.data_ptr<double>(), squares.size(), squares.begin());
  } else {
    for (std::size_t i = 0; i < squares.size(); ++i) {
      if (!layout.is_mine(placements[i])) continue;
      const std::int64_t count = placements[i].spec.shape.numel();
      squares[i] = ops::sum_of_squares(parameters.flat().gradient(placements[i]).data_ptr<float>(), count);
    }
  }
  if (layout.is_sharded()) world.all_reduce_sum(squares);
  GradientNorm norm;
  for (std::size_t i = 0; i < squares.size(); ++i) {
    norm.squared += squares[i];
    if (!std::isfinite(squares[i]) && norm.non_finite.empty())
      norm.non_finite = non_finite_part(parameters, placements[i], world);
  }
  return norm;
}

void take_step(Parameters& parameters, const OptimizerOptions& optim, const OptimizerStep& step, RankTensors& ranks) {
  const ParameterLayout& layout = parameters.layout();
  // When sharded, each rank updates its own Muon matrices without exchange.
  const std::unique_ptr<dist::Collectives> solo = dist::make_solo();
  const std::unique_ptr<RankTensors> alone = ranks_through_host(*solo);
  const MuonStep muon{step.lr, optim.weight_decay, step.gradient_scale, optim.muon};
  for (const GradientRange& turn : turns(parameters, ranks)) {
    if (optim.name == OptimName::muon)
      muon_step(muon_matrices(parameters, turn), muon, layout.is_sharded() ? *alone : ranks);
    for (const AdamwSegment& segment : layout.adamw_segments(turn)) adamw(parameters, segment, optim, step);
    parameters.begin_refresh(turn, ranks, parameters.options().kernels != nullptr);
  }
  if (layout.is_sharded()) clear_gradients(parameters);  // drops this rank's terms of gradients that other ranks own
  parameters.end_refresh(ranks);
}

void clear_gradients(Parameters& parameters) {
  if (parameters.flat().trainable()) parameters.flat().gradients.zero_();
}

Optimizer::Optimizer(const OptimizerOptions& options, std::int64_t total_updates)
    : options_(options), total_updates_(total_updates) {
  QRL_REQUIRE(options.lr_scheduler == LrScheduler::constant || total_updates > 0, "optim.lr_scheduler",
              "a number of updates above 0 for a linear or cosine schedule", std::to_string(total_updates));
}

double Optimizer::lr() const { return learning_rate(options_, num_updates_, total_updates_); }

void Optimizer::step(Parameters& parameters, double gradient_norm, RankTensors& ranks) {
  // 1e-6 as in torch.nn.utils.clip_grad_norm_.
  const double scale = options_.grad_clip > 0 ? std::min(1.0, options_.grad_clip / (gradient_norm + 1e-6)) : 1.0;
  take_step(parameters, options_, {lr(), num_updates_, scale}, ranks);
  parameters.wait_for_device();  // so that a timer counts the device's work
  ++num_updates_;
}

void Optimizer::reset(const OptimizerOptions& options, std::int64_t total_updates) {
  QRL_INVARIANT(options.name == options_.name, "optimizer", "an optimizer of the same kind",
                "an optimizer of another kind");
  *this = Optimizer(options, total_updates);
}

double learning_rate(const OptimizerOptions& optim, std::int64_t num_updates, std::int64_t total_updates) {
  const std::int64_t warmup = optim.lr_warmup_ratio
                                  ? std::llround(*optim.lr_warmup_ratio * static_cast<double>(total_updates))
                                  : optim.lr_warmup_steps;
  if (num_updates < warmup) return optim.lr * static_cast<double>(num_updates + 1) / static_cast<double>(warmup);
  const double span = static_cast<double>(std::max<std::int64_t>(total_updates - warmup, 1));
  const double x = std::min(static_cast<double>(num_updates - warmup) / span, 1.0);
  switch (optim.lr_scheduler) {
    case LrScheduler::constant:
      return optim.lr;
    case LrScheduler::linear:
      return optim.lr * (1 - x);
    case LrScheduler::cosine:
      break;
  }
  return optim.lr * (1 + std::cos(std::numbers::pi * x)) / 2;
}

}  // namespace qrl::learner
