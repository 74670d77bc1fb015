// Owns what the learner publishes and the decoder reads in place: every weight in the form the kernels want, quantized
// once, with the policy version. Knows neither learner nor decoder.
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
#include "model/gain_noise.h"
#include "model/int8_profile.h"
#include "model/weights.h"
#include "ops/linear.h"
#include "quant/format.h"

namespace qrl::model {

/// Which matrix of a snapshot has which format.
struct SnapshotFormats {
  SnapshotFormats(quant::Format linear_) : linear(linear_) {}  // NOLINT: one format is all that most have to say
  quant::Format linear;                                        ///< of q, k, v, o, gate, up and down
  /// Of those, the ones that stay bf16: patterns (* and ?) of a module's name, whole ("model.layers.0.mlp.down_proj")
  /// or its last part ("down_proj"). "lm_head" and "embed_tokens", which `linear` is not for, may be among them.
  std::vector<std::string> ignore;
  bool f32_lm_head = false;         ///< else bf16, or fp32 when `linear` is
  bool int8_lm_head = false;        ///< scales per token and per output; the learner has its own wide lm_head
  LoraConfig lora = {};             ///< adapters beside the matrices
  quant::Rotation rotation = {};    ///< of what enters matrices in `linear`, where that has scales
  bool rotates_if_it_fits = false;  ///< else a model that `rotation` does not fit is an input error
};

/// The rotation that a snapshot of this model has: formats.rotation; or none where `linear` has no scales, or where the
/// rotation fits not all inputs of its matrices and formats.rotates_if_it_fits. Throws as check_formats does.
quant::Rotation fitting_rotation(const ModelConfig& config, const SnapshotFormats& formats);

/// One transformer block, ready for the kernels: gains in fp32, matrices packed. Gains that the model lacks are empty.
struct LayerSnapshot : Block<base::Buffer, ops::PackedLinear> {
  Block<std::monostate, MatrixAdapter> adapters;  ///< empty where a matrix has none
};

/// One of a snapshot's tensors, for people.
struct SnapshotTensor {
  std::string name;            ///< "layers.0.qkv"
  std::string what;            ///< "int8 [80, 24], scales [1, 80] F32"
  const void* data = nullptr;  ///< what readers of the same memory share
  bool is_gain = false;        ///< a norm's; else embedding, linear layer or lm_head
};

/// How far a weight as a snapshot holds it is from its master.
struct WeightError {
  std::string weight;  ///< its HF name; a tied lm_head has the embedding's
  quant::Format format = quant::Format::f32;
  quant::FormatError error;
};

/// Throws for weights (or what was computed from them) that are not finite: an input error for those that were loaded,
/// version 0; a guard error for those that training made.
[[noreturn]] void fail_broken(const std::string& where, std::int64_t version);

/// Throws an input error for a pattern in `formats.ignore` that fits no module, or not all modules of one matrix (q, k
/// and v; gate and up), and for a rotation that a matrix's inputs are not whole blocks of.
void check_formats(const ModelConfig& config, const SnapshotFormats& formats);

class DeviceWeights;

/// A published policy. Buffers are made once; `publish` rewrites them in place, so whoever reads them must not be in a
/// forward meanwhile (the version says which weights they hold: readers check that it stands still).
class Snapshot {
 public:
  /// Throws as check_formats does.
  Snapshot(const ModelConfig& config, const SnapshotFormats& formats);

  /// From the next publish on int8 layers are quantized by this profile of the same model, its factors folded into the
  /// norms; null: by the weights themselves.
  void use_profile(std::shared_ptr<const Int8Profile> profile) { profile_ = std::move(profile); }

  /// From the next publish on all norms' gains have this noise, anew for each version. In host memory alone.
  void use_gain_noise(const GainNoise& noise) { noise_ = noise; }

  /// Quantizes and packs `masters` (fp32 views by name) on all threads. A weight that is not
  /// finite ends in fail_broken, which names the tensor. `version` is the policy version from now on.
  void publish(const WeightViews& masters, std::int64_t version);
  /// The same of weights that are not in memory: takes one tensor's fp32 values at a time.
  void publish(const WeightSource& source, std::int64_t version);

  /// Rewrites adapters (and, with train_norms, gains) alone: adapter_specs' tensors, fp32 by name. The base, which an
  /// earlier publish of either of the above wrote, stays as it is, in host memory and where a device has it. A weight
  /// that is not finite ends in fail_broken.
  void publish_adapters(const WeightViews& adapters, std::int64_t version);

  /// The same as publish, or with adapters as publish_adapters, in a device's memory alone: from then on the tensors
  /// here are of no version, and asking for them is an internal error until the next publish of the other kind.
  class DeviceWriter {
   public:
    /// `device` holds this snapshot's weights; both must outlive this.
    DeviceWriter(Snapshot& snapshot, DeviceWeights& device, std::int64_t version);
    /// Some of the weights (with adapters: of adapter_specs), fp32 by name in the device's memory. Blocks.
    void write(const WeightViews& masters);
    /// After the last weight: the snapshot stands for `version`, or fail_broken.
    void finish();

   private:
    Snapshot& snapshot_;
    DeviceWeights& device_;
    std::int64_t version_;
    std::vector<WeightSpec> specs_;
    std::map<std::string, quant::Format> formats_;  ///< of matrices
    std::size_t num_written_ = 0;
    std::string broken_;
  };

  const ModelConfig& config() const { return config_; }
  quant::Format format() const { return format_; }  ///< of the linear layers that no pattern exempts
  /// Returns the rotation of all linear layers that no pattern exempts.
  const quant::Rotation& rotation() const { return rotation_; }
  const LoraConfig& lora() const { return lora_; }
  std::int64_t version() const { return version_; }  ///< −1 before the first publish
  /// Counts publishes of all weights through host memory: of the same number the base of adapters is the same.
  std::int64_t base_number() const { return base_number_; }
  /// bf16, or fp32 when the format is.
  const base::Buffer& embedding_VD() const { return here(embedding_VD_); }
  const base::Buffer& final_norm_D() const { return here(final_norm_D_); }  ///< fp32
  const LayerSnapshot& layer(std::int64_t idx) const { return here(layers_[static_cast<std::size_t>(idx)]); }
  /// A layer for its tensors' formats and shapes alone, which do not depend on where the version's values are.
  const LayerSnapshot& layer_form(std::int64_t idx) const { return layers_[static_cast<std::size_t>(idx)]; }
  /// bf16, fp32 or int8. Packed apart from the embedding even when tied.
  const ops::PackedLinear& lm_head() const { return here(lm_head_); }
  std::size_t num_bytes() const;

  /// All tensors in the order of the forward pass.
  std::vector<SnapshotTensor> tensors() const;

  /// Format error of every matrix, in their order, against the `masters` that were published (as a profile's factors
  /// leave them, and rotated as the matrices are); without a name where `masters` lacks it.
  std::vector<WeightError> format_errors(const WeightViews& masters) const;
  /// The same of masters that are read, by one thread, a few at a time; read gives an empty buffer for one that it has
  /// not.
  using ReadMaster = std::function<base::Buffer(const std::string& weight)>;
  std::vector<WeightError> format_errors(const ReadMaster& read) const;

 private:
  class Writer;
  /// visit(gains) for each norm in the order of the forward pass.
  template <class Visit>
  void visit_gains(const Visit& visit);
  /// After a publish: the gains are those that were published, if `are_new`, else those of before without their noise;
  /// they get this version's.
  void finish_gains(bool are_new, std::int64_t version);
  /// `tensor`, if the host's tensors are those of the version.
  template <class Tensor>
  const Tensor& here(const Tensor& tensor) const {
    QRL_INVARIANT(!is_elsewhere_, "snapshot", "weights in host memory",
                  "version " + std::to_string(version_) + " on a device alone");
    return tensor;
  }

  ModelConfig config_;
  quant::Format format_;
  quant::Rotation rotation_;
  LoraConfig lora_;
  std::int64_t version_ = -1, base_number_ = 0;
  bool is_elsewhere_ = false;  ///< on a device alone
  std::shared_ptr<const Int8Profile> profile_;
  GainNoise noise_;
  std::vector<float> gains_;  ///< of all norms, without noise; empty until there was some
  base::Arena matrices_;
  base::Buffer embedding_VD_, final_norm_D_;
  std::vector<LayerSnapshot> layers_;
  ops::PackedLinear lm_head_;
};

/// Of the adapters' A and B, and of what enters them: bf16, or fp32 when the linear layers are.
quant::Format adapter_format(const Snapshot& snapshot);
/// Whether a pattern exempts some linear layer from the format of the others.
bool has_exempt_layers(const Snapshot& snapshot);

}  // namespace qrl::model
