#include "wire/proto_field.h"

namespace tinker::wire {

bool read_unknown_field(pbf_reader& reader, Members members, ProtoDecoder& decoder) {
  if (members != Members::open) {
    const std::string name = base::concat('#', reader.tag());
    const Path::Step step(decoder.path(), name);
    if (members == Members::exact || !decoder.is_lenient()) {
      return decoder.fail("expected no such field in this message");
    }
    decoder.report_unknown();
  }
  reader.skip();
  return true;
}

}  // namespace tinker::wire
