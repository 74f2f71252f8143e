/**
 * The registry of error codes: one paragraph each, printed in docs/errors.md.
 * Grouped by the layer that throws them; keep each group sorted.
 */
export const errorCodes = {
  // util
  CONFIG_BAD_VALUE: "An option has a value outside of what it accepts. The message names the option, the value and what is accepted.",
  CONFIG_BAD_YAML: "A configuration file is not YAML. The message gives file:line:column and what the parser expected.",
  CONFIG_UNKNOWN_OPTION: "An option is not known to the command. The message names the nearest known one where there is one.",

  // formats
  FILE_CHANGED: "A file became shorter while it was read. Make sure that nothing writes to it, and start again.",
  FOLDER_BUSY:
    "Another process is at work in a folder of results; the message names it. A lock that a killed process left on this machine is taken over; one of a machine that cannot be asked has to be removed by hand.",
  FILE_MISSING: "There is no file at this path. Relative paths start at the working directory, those of a manifest at the manifest.",
  FILE_UNREADABLE: "A file cannot be opened or read: a folder, no permission, or a failing disk. The message holds the reason of the operating system.",
  FILE_UNWRITABLE: "A file cannot be written: no permission, no space, or no such folder. What was there before is unchanged.",
  GZIP_BAD: "A file that begins like gzip is damaged or ends early. Compress or copy it again.",
  JSONL_BAD_LINE: "A line of a JSON-lines file is not JSON. The message gives file:line:column of the first character that does not fit.",
  LILCOM_BAD: "Features that are not lilcom data, are damaged or cut off, or an array that lilcom cannot hold. Compute the features again, or copy their archive again.",
  NPY_BAD: "A file that is no NumPy array of real numbers: another format, a pickle, or one that ends early.",
  PT_BAD:
    "A file that torch.save did not write, or that is damaged: a broken zip archive or pickle, a tensor that does not fit its elements, a wrong checksum. The message says what was found where.",
  PT_TOO_LARGE:
    "A file of torch.save claims far more than its size can hold: millions of values, values that contain themselves or repeat one another, tensors that repeat a few elements. It was made to exhaust memory, or by mistake. Or one of its tensors is larger than an array of this Node.js can be: 4 GiB before Node.js 22.",
  PT_TRUNCATED: "A file of torch.save ends early. It was not copied or written to its end: a run that is killed while it saves leaves such files.",
  PT_UNSUPPORTED: "A file of torch.save, or a value in it, of a kind that serac does not read: TorchScript programs, packed or encrypted archives, the tar form of torch 0.1.9.",
  PT_UNWRITABLE_VALUE: "A value that is to be written to a .pt file is none that serac writes: a placeholder of an unknown type, or a value that contains itself.",
  SAFETENSORS_BAD: "A safetensors file breaks its format: no JSON header, an unknown dtype, or sizes that do not agree.",
  SAFETENSORS_TRUNCATED: "A safetensors file is shorter than its header says. It was not copied or written to its end.",
  TAR_BAD: "A tar archive breaks its format: a header whose checksum or numbers do not fit, or a broken PAX header. The message gives the archive and the position.",
  TAR_COMPRESSED: "An archive is packed by gzip, bzip2 or xz, so that its members can only be read in order. Unpack it once to read them at random.",
  TAR_INDEX_BAD: "A `.idx` file does not fit the archive beside it. Remove it: it is built again when it is needed.",
  TAR_TRUNCATED: "A tar archive ends inside of a header or of a member's data. It was not copied or written to its end.",
  TAR_UNPACKER: "An archive is packed by bzip2 or xz, and the program of that name, which unpacks it, is not installed or did not start.",
  WAV_BAD: "Bytes that are not a WAV file, or a WAV file without a format or data chunk.",
  WAV_UNSUPPORTED: "A WAV file of an encoding, sample width or number of channels that this reader does not have. With the media addon, libsndfile reads more of them.",

  // torch
  NATIVE_FAILED: "A native function failed in a way that has no code of its own; the message has the library's words.",
  NATIVE_MISSING: "A native addon has not been built, or a library it needs is not installed. `npm run setup` in a checkout, or `serac doctor`, says which.",
  NATIVE_TWICE:
    "Two copies of the torch addon were loaded in one process. libtorch keeps operators in one registry, so there can be only one: find out why two copies of serac are installed (`npm ls serac`).",
  TENSOR_FREED: "A tensor was used after it was freed: its scope ended, or `dispose()` was called. Return it from the scope, or `keep()` it.",
  TORCH_BAD_ARGUMENT: "An operator got an argument of the wrong type, or one is missing. The message names the operator, the argument and the type its schema asks for.",
  TORCH_FAILED: "libtorch raised an error inside an operator. The message names the operator and the shapes it got, followed by libtorch's own words.",
  TORCH_NO_DEVICE:
    "A device to compute on is not there: its name is unknown, the loaded libtorch was built without CUDA, or no GPU of that number is visible. `serac doctor` tells what is.",
  TORCH_NO_MEMORY:
    "An operator needs more memory than there is, or than was allowed. Shorter batches, a smaller model or fewer utterances at a time need less; serac batch-sizes finds how large batches may be.",
  TORCH_UNKNOWN_OPERATOR: "The loaded libtorch has no operator of this name and overload.",

  // audio
  AUDIO_BAD_RATE: "The header of an audio file gives a sampling rate that no recording has: below 1 kHz or above 768 kHz. The header is damaged, or was written by hand.",
  AUDIO_BAD_RANGE: "The asked-for part of a recording begins after its end, or a time is negative or not a number.",
  AUDIO_EMPTY: "An audio file without a single sample, or without a single byte.",
  AUDIO_LENGTH: "A recording is shorter or longer by more than half a second than its manifest says, so that a batch would not have the size it was planned with.",
  AUDIO_MISSING: "There is no audio file at this path.",
  AUDIO_NOT_AUDIO: "A file is in no audio format that can be read, or it is damaged at its beginning.",
  AUDIO_NOT_FINITE: "Audio that holds NaN or infinite samples. Nothing sensible can be computed from them.",
  AUDIO_TOO_LONG:
    "A recording is so long that attention over all of it, whose memory grows with the square of the length, would take more than half of the machine's memory. The message gives the length that fits; cut the recording into pieces.",
  AUDIO_TRUNCATED: "An audio file ends earlier than its header says. It was not copied or written to its end.",
  AUDIO_UNREADABLE: "An audio file exists but cannot be opened or decoded. The message holds the reason that the library or the operating system gave.",
  AUDIO_UNWRITABLE: "Audio cannot be written: the place is not writable, or the format does not take this sampling rate or number of channels.",

  // text
  TEXT_BAD_ID: "A token id outside of the vocabulary of the tokenizer.",
  TEXT_NOT_A_MODEL: "A file that is not a SentencePiece model, or a damaged one.",
  TEXT_TRAIN_FAILED: "SentencePiece could not train a model. The message holds its reason.",
  TEXT_TRAIN_NO_INPUT: "There is no text to train a tokenizer on: every line is empty.",
  TEXT_VOCAB_TOO_LARGE: "The text is too little for the asked-for vocabulary. The message gives the largest size that it supports.",
  TEXT_VOCAB_TOO_SMALL: "The vocabulary is smaller than the characters of the text and the special tokens need. The message gives the smallest size.",

  // data
  CANARY_BAD_SLOT:
    "A manifest line for Canary models lacks a key that its prompt needs, or has a value that none of its spellings is. The message gives key, value and what is accepted.",
  CORPUS_BAD: "A corpus is not as it was downloaded: a part is missing, without transcripts, or its audio does not fit. The message names the folder or the file.",
  CUT_BAD: "A line of a manifest of lhotse cuts that cannot be used: a field is missing or of the wrong kind, or a kind of cut that comes into being while training only.",
  FEATURES_BAD:
    "Stored features that are not what their manifest says: another number of frames or bins, or a storage key that does not fit; or values that are NaN or infinite. Compute them again.",
  FEATURES_STORAGE: "Features are stored in a way that is not read, for instance HDF5. Read are lilcom_chunky, lilcom_files, numpy_files and the tars of Shar.",
  LOADER_THREAD_DIED:
    "A thread that prepares batches is gone: it ran out of memory or was ended. The message names the utterance that it worked on; the batches after it cannot be given.",
  MANIFEST_BAD_DURATION: "A manifest line has a duration that is no number of seconds above 0.",
  MANIFEST_BAD_OFFSET: "A manifest line has an offset that is no number of seconds from 0.",
  MANIFEST_BAD_TEXT: "A manifest line has a transcript that is not a string.",
  MANIFEST_EMPTY: "A manifest has no line that can be used.",
  MANIFEST_NO_AUDIO: "A manifest line names no audio file. Accepted keys: audio_filepath, audio_filename, audio_file.",
  MANIFEST_NO_DURATION: "A manifest line has no duration, which training needs to make batches.",
  MANIFEST_NOT_AN_OBJECT: "A manifest line is valid JSON but not an object.",
  MANIFEST_OUTPUT_EXISTS: "A folder to write to holds shards of an earlier run, among which new ones would mix. Name a new folder, or remove the old one.",
  MANIFEST_PRETTY_PRINTED: "A manifest holds one JSON value over several lines, where an object on each line is expected. `serac manifest convert --from json` writes it so.",
  MANIFEST_SHAR_BAD: "A folder of lhotse's Shar format whose cuts and recordings do not go together: another number of shards or members, or another order.",

  MIX_BAD_WEIGHT:
    "A weight of a mixture is missing, zero, negative or no number. Of the sources of a mixture all have a weight or none has; a source that shall not be read is left out.",
  MIX_UNKNOWN_TYPE: "An item of input_cfg has a type that is not known or that serac does not read. The message names the nearest known one where there is one.",

  SAMPLER_BAD_STATE: "A state to go on from is not of this sampler: of another version, with other settings, or damaged. The message says what differs.",
  SAMPLER_BINS: "Duration bins cannot be used: not in ascending order, not above 0, or not as many as the batch sizes need. The message says which bin it is.",
  SAMPLER_EMPTY: "A source has no item to make batches of: it is empty, or all of it was left out.",
  SAMPLER_SOURCE_CHANGED: "The data differs from what it was when the state was saved, so that the remaining batches of that epoch no longer exist. The next epoch can be started.",
  SAMPLER_TOO_FEW: "A source has fewer items than there are ranks, so that some rank would have nothing to train on.",
  SAMPLER_TOO_LONG: "An utterance is longer than a whole batch may be. Leave it out by its duration, or raise the limit.",

  SHARDS_ALL_DAMAGED: "A rank or worker has nothing but damaged members in its share of a tarred dataset, so that there is nothing to go on with.",
  SHARDS_BAD_PATTERN:
    "A pattern of shards cannot be expanded: a brace without its partner, far too many results, or brackets that are part of a folder's name. Ranges are written {0..63} or _OP_0..63_CL_; a backslash before a bracket makes it an ordinary character.",
  SHARDS_DIFFER: "Sharded manifests and tars are not the same shards: the message gives the numbers that only one side has.",
  SHARDS_EMPTY: "A tarred dataset has no utterance that can be read, after filters and after matching entries and members. The message counts the reasons.",
  SHARDS_TOO_FEW: "A tarred dataset has fewer utterances than there are ranks and workers to read them.",
  SHARDS_UNEVEN: "Under the strategy scatter some rank would run out of batches before the others, and training that waits for all of them would hang.",

  SOURCE_EMPTY: "A source has no utterance that can be used: its files are empty, or filters leave nothing. The message counts the reasons.",

  TARRED_AUDIO:
    "Audio of a dataset to be tarred is missing, unreadable or without a byte. All such files are counted before anything is written and the first ones are named, with their places in the manifest.",
  TARRED_BAD_ENTRY: "A manifest line cannot go into a tarred dataset: a key is missing or has the wrong kind of value. The message names the line and the key.",
  TARRED_EMPTY: "No utterance is left to tar after the filters. The message tells how many there were and what the bounds are.",
  TARRED_EXISTS: "The target holds another tarred dataset, or an unfinished one with other settings. Nothing is overwritten unless --overwrite is given.",
  TARRED_METADATA: "A metadata.yaml of a tarred dataset is missing, is no YAML, or lacks what is needed. The message names the key.",
  TARRED_NO_SPACE: "The target's disk has less room than the tar files take. Nothing was written.",

  // nn, models, losses, optim
  SHAPE_MISMATCH: "A tensor has another shape than the operation needs. The message gives both.",

  // train, decode
  CHECKPOINT_BAD: "A file is no checkpoint of serac's, or is damaged.",
  CHECKPOINT_BAD_AVERAGE: "The epochs asked for cannot be averaged: too few, or without the running averages that it takes.",
  CHECKPOINT_MISMATCH:
    "The parameters in a checkpoint have other names or shapes than the model's. The message gives the first that differ; usually a flag that shapes the model differs from training.",
  CHECKPOINT_MISSING: "There is no checkpoint, or no tokenizer, of that name.",
  TRAIN_GRADIENTS_NOT_FINITE:
    "The gradients of at least half of the last steps were infinite or not a number, so that no threshold for clipping can be taken from them. Usual causes: too high a learning rate, utterances with more tokens than frames, or fp16.",
  BATCH_SIZE_NONE:
    "Not even a batch of one utterance of some length fits into the memory that training may use. Leave out such utterances, train a smaller model, or allow more memory.",
  TRAIN_EXISTS:
    "Training from the start was asked for in a folder that holds the checkpoints of an earlier run, which would be overwritten. The message says how to go on from the newest.",
  TRAIN_NO_MEMORY:
    "A batch needs more memory than there is, found before training by trying the batches likeliest to, or while training. The message says how many utterances of which lengths it has; all are listed in bad-batch.jsonl in the experiment's folder.",
  TRAIN_REPLICA_FAILED: "One of the threads of --replicas failed or ended. The message is its error.",
  TRAIN_LOSS_NOT_FINITE:
    "The loss of a batch, or its gradients, are infinite or not a number, in too many batches in a row. The message names utterances of the batch; their ids are written to bad-batch.jsonl in the experiment's folder.",
  TRAIN_TOO_FEW_FRAMES: "An utterance has fewer frames, as it is played, than its transcript has tokens, so that its loss would be infinite. It is left out and counted.",
  TRAIN_NO_DATA: "No utterance is left to train on, after those that cannot be used were left out. The message counts them by reason.",
} as const satisfies Record<string, string>;

/** A stable identifier of a kind of error. */
export type ErrorCode = keyof typeof errorCodes;
