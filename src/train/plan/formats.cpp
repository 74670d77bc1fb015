#include "train/plan/formats.h"

#include "base/error.h"

namespace qrl::train {

using quant::Format;

namespace {

Format linear_format(const QuantRecipe& quant) {
  switch (quant.weights) {
    case WeightFormat::f32:
      return Format::f32;
    case WeightFormat::bf16:
      return Format::bf16;
    case WeightFormat::int8:
      return Format::int8;
    case WeightFormat::fp8_e4m3:
      return quant.granularity == Granularity::tensor     ? Format::fp8_tensor
             : quant.granularity == Granularity::block128 ? Format::fp8_block128
                                                          : Format::fp8_channel;
    case WeightFormat::int4:
      break;
  }
  const quant::Element activations = quant.activations == ActivationFormat::int8       ? quant::Element::int8
                                     : quant.activations == ActivationFormat::fp8_e4m3 ? quant::Element::fp8_e4m3
                                                                                       : quant::Element::bf16;
  const std::int64_t group = quant.group_size == GroupSize::inputs64   ? 64
                             : quant.group_size == GroupSize::inputs32 ? 32
                                                                       : 128;
  return quant::int4_format(activations, group);
}

}  // namespace

model::SnapshotFormats snapshot_formats(const QuantRecipe& quant) {
  model::SnapshotFormats formats(linear_format(quant));
  formats.ignore = quant.ignore;
  if (quant.scales == WeightScales::least_squares) formats.scale_rule = quant::ScaleRule::least_squares;
  if (quant.rotation != RotationKind::none) formats.rotation = {quant.rotation_block};
  formats.rotates_if_it_fits = quant.rotation == RotationKind::automatic;
  formats.f32_lm_head = quant.lm_head == HeadFormat::f32 || formats.linear == Format::f32;
  formats.int8_lm_head = quant.lm_head == HeadFormat::int8;
  return formats;
}

quant::KvFormat kv_format(const QuantRecipe& quant) {
  switch (quant.kv_cache.value) {
    case KvCache::f32:
      return quant::KvFormat::f32;
    case KvCache::bf16:
      return quant::KvFormat::bf16;
    case KvCache::int8:
      return quant::KvFormat::int8;
    case KvCache::fp8_e4m3:
      break;
  }
  return quant::KvFormat::fp8_e4m3;
}

std::string rotation_text(const quant::Rotation& rotation) {
  return rotation ? "inputs rotated by blocks of " + std::to_string(rotation.block) + " (hadamard)"
                  : "inputs not rotated";
}

std::string policy_text(const Recipe& recipe) {
  const bool beside = trains_adapters(recipe) && recipe.lora.publish == LoraPublish::adapter;
  const bool rotated = recipe.quant.rotation == RotationKind::hadamard;
  return (beside ? "adapters on " : "") + std::string(quant::name(snapshot_formats(recipe.quant).linear)) + " weights" +
         (rotated ? " (" + rotation_text({recipe.quant.rotation_block}) + ")" : "") + " with " +
         std::string(quant::name(kv_format(recipe.quant))) + " keys and values";
}

bool has_quantized_export(const Recipe& recipe) {
  const bool beside = trains_adapters(recipe) && recipe.lora.publish == LoraPublish::adapter;
  return quant::spec(snapshot_formats(recipe.quant).linear).has_weight_scales() &&
         recipe.quant.lm_head != HeadFormat::int8 && recipe.quant.rotation == RotationKind::none && !beside;
}

std::string_view name(learner::LearnerForward forward) {
  return forward == learner::LearnerForward::bf16      ? "bf16"
         : forward == learner::LearnerForward::low_bit ? "low_bit"
                                                       : "fake_quant";
}

}  // namespace qrl::train
