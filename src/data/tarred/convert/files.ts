/** Names of a dataset's files: NeMo's. */

/** Folder of the shards' manifests. */
export const shardManifestFolder = "sharded_manifests";
export const tarName = (shard: number): string => `audio_${shard}.tar`;
export const shardManifestName = (shard: number): string => `manifest_${shard}.json`;

/** The manifest of all shards, and metadata.yaml: version 0 is a new dataset, and each concatenation makes one more. */
export const aggregateName = (version: number): string => (version === 0 ? "tarred_audio_manifest.json" : `tarred_audio_manifest_version_${version}.json`);
export const metadataName = (version: number): string => (version === 0 ? "metadata.yaml" : `metadata_version_${version}.yaml`);

const numberBy =
  (pattern: RegExp) =>
  (name: string): number | undefined => {
    const id = pattern.exec(name)?.[1];
    return id === undefined ? undefined : Number(id);
  };

/** The shard of a tar file or of a shard's manifest by its name; undefined for other files. */
export const shardOfTar = numberBy(/^audio_(\d+)\.tar$/);
export const shardOfManifest = numberBy(/^manifest_(\d+)\.json$/);
