#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "model/adapter.h"
#include "model/block.h"
#include "model/config.h"
#include "model/int8_profile.h"
#include "model/weights.h"
#include "ops/delta_net.h"
#include "ops/experts.h"
#include "ops/linear.h"
#include "quant/format.h"

namespace qrl::model {

struct SnapshotFormats {
  SnapshotFormats(quant::Format linear_) : linear(linear_) {}  // NOLINT: a format alone is the common case
  quant::Format linear;  ///< format of linear layers, also of experts, but not of routers and DeltaNet's b and a
  quant::ScaleRule scale_rule = quant::ScaleRule::largest;
  /// Modules that stay bf16. A pattern (with * and ?) matches a whole name or its last part:
  /// "model.layers.0.mlp.down_proj", "down_proj". "lm_head" and "embed_tokens" have no effect.
  std::vector<std::string> ignore;
  bool f32_lm_head = false;  ///< if set, lm_head is fp32; otherwise it is bf16 unless `linear` is fp32
  /// If set, lm_head is int8, with a scale per token and per output. The learner's own lm_head stays bf16 or fp32.
  bool int8_lm_head = false;
  LoraConfig lora = {};
  quant::Rotation rotation = {};    ///< input rotation of matrices in format `linear`; unused without scales
  bool rotates_if_it_fits = false;  ///< if set, a `rotation` that does not fit is dropped, not an input error
};

/// Returns formats.rotation. Returns none if `linear` has no scales, or if rotates_if_it_fits is set and the rotation
/// does not fit all inputs. Throws like check_formats.
quant::Rotation fitting_rotation(const ModelConfig& config, const SnapshotFormats& formats);

/// Holds one transformer block in the kernels' layout: fp32 gains, packed matrices. Gains that the model lacks are
/// empty.
struct LayerSnapshot : Block<base::Buffer, ops::PackedLinear> {
  Block<std::monostate, MatrixAdapter> adapters;  ///< may be empty
};

struct SnapshotTensor {
  std::string name;  ///< "layers.0.qkv"
  std::string what;  ///< format and shape: "int8 [80, 24], scales [1, 80] F32"; experts: "int8 [80, 24] × 5, …"
  const void* data = nullptr;  ///< address, to detect shared memory
  bool is_gain = false;        ///< false: embedding, linear layer or lm_head
};

struct WeightError {
  std::string weight;  ///< name in weight_specs; a tied lm_head has the embedding's name
  quant::Format format = quant::Format::f32;
  quant::FormatError error;
};

/// Throws for non-finite values: an input error for loaded weights (version 0), otherwise a guard error.
[[noreturn]] void fail_broken(const std::string& where, std::int64_t version);

/// Throws an input error if an `ignore` pattern matches no module, or if the patterns match only some of the modules
/// that share a fused matrix (q, k and v). Does the same if all linear layers are exempt, or if `rotation` does not fit
/// an input width and rotates_if_it_fits is false. Groups of 64 or 32 inputs must divide each width.
void check_formats(const ModelConfig& config, const SnapshotFormats& formats);

class DeviceWeights;

/// Counts a snapshot's quantized values, and how many of them its publishes to host memory have changed so far. The
/// first publish changes none.
struct QuantizedValues {
  std::int64_t count = 0, num_changed = 0;
};

/// Holds a published policy in the kernels' layout, in buffers that `publish` rewrites in place. No forward pass may
/// run during a publish; readers check the version.
class Snapshot {
 public:
  /// Throws as check_formats and check_lora do.
  Snapshot(const ModelConfig& config, const SnapshotFormats& formats);

  /// Makes later publishes quantize int8 layers with this profile. If `profile` is null, scales are computed from the
  /// weights.
  void use_profile(std::shared_ptr<const Int8Profile> profile) { profile_ = std::move(profile); }

  /// Makes each later publish to host memory add fresh noise to the norms' gains.
  void use_gain_noise(const GainNoise& noise) { noise_ = noise; }

  /// Quantizes and packs `masters` (fp32 views by name) on all threads, as policy version `version`. Throws
  /// (fail_broken) with the name of a non-finite weight.
  void publish(const WeightViews& masters, std::int64_t version);
  /// Publishes like the function above, reading one fp32 tensor at a time.
  void publish(const WeightSource& source, std::int64_t version);

  /// Rewrites only adapters (and, with train_norms, gains) from fp32 views of adapter_specs' tensors, by name. Throws
  /// (fail_broken) for a non-finite weight.
  void publish_adapters(const WeightViews& adapters, std::int64_t version);

  /// Publishes to a device's memory but not to the host's: all weights, or with adapters only adapter_specs' tensors.
  /// Until the next publish to host memory, reading the host's tensors is an internal error.
  class DeviceWriter {
   public:
    /// `device` must hold `snapshot`'s weights. Both must outlive this object.
    DeviceWriter(Snapshot& snapshot, DeviceWeights& device, std::int64_t version);
    /// Writes some of these weights from fp32 tensors on the device, by name, and waits until they are written. Ignores
    /// other tensors.
    void write(const WeightViews& masters);
    /// Completes `version` after the last weight. Throws (fail_broken) if a weight was not finite.
    void finish();

   private:
    Snapshot& snapshot_;
    DeviceWeights& device_;
    std::int64_t version_;
    std::vector<WeightSpec> specs_;
    std::map<std::string, quant::Format> formats_;  ///< format of each weight's matrix, by the weight's name
    std::size_t num_written_ = 0;
    std::string broken_;
  };

  const ModelConfig& config() const { return config_; }
  quant::Format format() const { return format_; }  ///< format of linear layers that are not exempt
  const quant::Rotation& rotation() const { return rotation_; }
  const LoraConfig& lora() const { return lora_; }
  std::int64_t version() const { return version_; }  ///< −1 before the first publish
  /// Returns the number of `publish` calls. Only these change base weights in host memory.
  std::int64_t base_number() const { return base_number_; }
  /// Returns the embedding: bf16, or fp32 if format() is fp32.
  const base::Buffer& embedding_VD() const { return here(embedding_VD_); }
  const base::Buffer& final_norm_D() const { return here(final_norm_D_); }  ///< fp32
  const LayerSnapshot& layer(std::int64_t idx) const { return here(layers_[static_cast<std::size_t>(idx)]); }
  /// Returns a layer for its formats and shapes alone, without checking that the version is in host memory.
  const LayerSnapshot& layer_form(std::int64_t idx) const { return layers_[static_cast<std::size_t>(idx)]; }
  /// Returns lm_head in bf16, fp32 or int8, packed separately even if tied.
  const ops::PackedLinear& lm_head() const { return here(lm_head_); }
  std::size_t num_bytes() const;

  /// Describes all tensors in forward order.
  std::vector<SnapshotTensor> tensors() const;

  /// Returns each matrix's quantization error against the published `masters`, in order. Applies a profile's factors
  /// and the rotation to masters first. An entry's name is empty if its master is missing.
  std::vector<WeightError> format_errors(const WeightViews& masters) const;
  /// Computes the same with few masters in memory at a time. Only the calling thread calls `read`, which returns an
  /// empty buffer for a missing master.
  using ReadMaster = std::function<base::Buffer(const std::string& weight)>;
  std::vector<WeightError> format_errors(const ReadMaster& read) const;

 private:
  class Writer;
  friend QuantizedValues quantized_values(const Snapshot& snapshot);
  template <class Visit>
  void visit_gains(const Visit& visit);
  /// After a publish, sets the snapshot's gains to gains_ plus this version's noise. If `gains_are_new`, first copies
  /// the snapshot's gains to gains_.
  void finish_gains(bool gains_are_new, std::int64_t version);
  /// Throws an internal error if the version is on a device but not in host memory.
  template <class Tensor>
  const Tensor& here(const Tensor& tensor) const {
    QRL_INVARIANT(!is_elsewhere_, "snapshot", "weights in host memory",
                  "version " + std::to_string(version_) + " only on a device");
    return tensor;
  }

  ModelConfig config_;
  quant::Format format_;
  quant::Rotation rotation_;
  LoraConfig lora_;
  std::int64_t version_ = -1, base_number_ = 0, num_changed_ = 0;
  bool is_elsewhere_ = false;  ///< whether the published version is on a device but not in host memory
  std::shared_ptr<const Int8Profile> profile_;
  GainNoise noise_;
  std::vector<float> gains_;  ///< all gains before noise; empty until noise is used
  base::Arena matrices_;
  base::Buffer embedding_VD_, final_norm_D_;
  std::vector<LayerSnapshot> layers_;
  ops::PackedLinear lm_head_;
};

QuantizedValues quantized_values(const Snapshot& snapshot);
/// Returns the format of A, B and their inputs: bf16, or fp32 if linear layers are fp32.
quant::Format adapter_format(const Snapshot& snapshot);
/// Returns whether some matrix is exempt from the snapshot's format: by `ignore`, or as a wide_linear of DeltaNet.
bool has_exempt_layers(const Snapshot& snapshot);
ops::DeltaShape delta_shape(const ModelConfig& config);
ops::DeltaWeights delta_weights(const LayerSnapshot& layer);
ops::Router router_of(const ModelConfig& config);

}  // namespace qrl::model
