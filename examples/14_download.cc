// A checkpoint on this disk: exported in the layout that other tools read, fetched in parts,
// compared with the checksum if storage sends one, and there only when it is complete.
#include <filesystem>
#include <iostream>

#include "server.h"
#include "text.h"

int main() {
  const example::Server server;
  auto service = server.connect();
  auto trainer = service.create_lora_training_client(example::any_model(service)).get().value();
  auto step = trainer.train_step({example::next_letters("take me home. ")},
                                 tinker::LossFn::cross_entropy,
                                 {.learning_rate = 1e-2});
  step.optim_step.get().value();
  const auto folder =
      (std::filesystem::temp_directory_path() / ("tinker-" + trainer.model_id())).string();

  //! [download]
  const auto exported = trainer.save_weights_external("final").get().value();
  const auto rest = service.create_rest_client();
  const auto checkpoint =
      rest.download_checkpoint(exported.path,
                               folder,
                               {.overwrite = true,
                                .progress =
                                    [](const tinker::DownloadProgress& progress) {
                                      std::cerr << progress.bytes_done << " bytes\r";
                                    }})
          .get()
          .value();
  for (const auto& file : checkpoint.files) {
    std::cout << file.name << ": " << file.size << " bytes"
              << (file.checksum == tinker::Checksum::none ? "" : ", checksum verified") << '\n';
  }
  //! [download]

  //! [exists]
  // What is there is not touched unless asked for.
  const auto again = rest.download_checkpoint(exported.path, folder).get();
  std::cout << tinker::to_string(again.error().code) << '\n';
  //! [exists]
  std::filesystem::remove_all(folder);
}
