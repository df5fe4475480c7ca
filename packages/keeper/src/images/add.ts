import { Failure } from '@anchorhold/protocol/failures'
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, lstatSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { isAbsolute, join, normalize } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { type Image, makeImage } from './images.ts'
import { layInto } from './layers.ts'
import { digestOf } from './recipes.ts'
import { runTool } from './tools.ts'

export type AddOptions = {
  readonly images: string
  readonly name: string
  /** A folder, the tar of a root, or what `docker save` and `podman save` write. */
  readonly from: string
  readonly say: (step: string) => void
}

/** Makes an image of what somebody brings along. Nothing in it is trusted: it is only ever unpacked below its own folder. */
export async function addImage({ images, name, from, say }: AddOptions): Promise<Image> {
  const stat = statSync(from, { throwIfNoEntry: false })
  if (stat === undefined) throw new Failure('bad_request', `Cannot add the image "${name}": there is no "${from}"`)
  const digest = stat.isDirectory() ? digestOf(`${from} ${Date.now()}`) : await fileDigest(from)
  return makeImage({ images, name, digest }, async (root, work) => {
    say('unpacking')
    if (stat.isDirectory()) await runTool('cp', ['-R', '-P', '--preserve=mode,timestamps,links', '--', `${from}/.`, root])
    else await unpackArchive(from, root, work, say)
    if (!['bin', 'usr'].some((top) => existsSync(join(root, top))))
      throw new Failure('bad_request', `Cannot add the image "${name}": "${from}" holds no root file system`, {
        hint: 'Give it a folder or a tar with /bin or /usr in it, or an archive from docker save or podman save',
      })
  })
}

async function unpackArchive(archive: string, root: string, work: string, say: (step: string) => void): Promise<void> {
  const outer = join(work, 'archive')
  mkdirSync(outer)
  await unpackTar(archive, outer)
  const layers = layersOf(outer)
  if (layers === null) return layInto(root, outer)
  for (const [index, layer] of layers.entries()) {
    say(`unpacking layer ${index + 1} of ${layers.length}`)
    // Each into a folder of its own: in that of the one before, a link of that one's would be followed.
    const own = join(work, `layer-${index}`)
    mkdirSync(own)
    await unpackTar(layer, own)
    await layInto(root, own)
  }
}

/** tar keeps to the folder by itself: it cuts leading slashes off, refuses `..`, and makes a link that points outside only after all
 *  else. Compression it finds out. */
async function unpackTar(archive: string, folder: string): Promise<void> {
  const args = ['--extract', '--no-same-owner', '--delay-directory-restore', '--file', archive, '--directory', folder]
  await runTool('tar', args)
}

/** https://github.com/moby/docker-image-spec, manifest.json of `docker save` */
const DockerManifest = z.array(z.object({ Layers: z.array(z.string()) })).length(1)
/** https://github.com/opencontainers/image-spec */
const Descriptor = z.object({ digest: z.string().regex(/^sha256:[0-9a-f]{64}$/) })
const OciIndex = z.object({ manifests: z.array(Descriptor).min(1) })
const OciManifest = z.object({ layers: z.array(Descriptor) })

/** The layers of a saved image from the lowest on, or null for a plain root. */
function layersOf(folder: string): string[] | null {
  const docker = join(folder, 'manifest.json')
  if (existsSync(docker)) return read(docker, DockerManifest)[0]!.Layers.map((path) => within(folder, path))
  const index = join(folder, 'index.json')
  if (!existsSync(index) || !existsSync(join(folder, 'oci-layout'))) return null
  const blob = ({ digest }: z.infer<typeof Descriptor>) => within(folder, `blobs/sha256/${digest.slice('sha256:'.length)}`)
  const [manifest] = read(index, OciIndex).manifests
  return read(blob(manifest!), OciManifest).layers.map(blob)
}

function read<T>(path: string, schema: z.ZodType<T>): T {
  const parsed = schema.safeParse(JSON.parse(readFileSync(path, 'utf8')))
  if (!parsed.success)
    throw new Failure('bad_request', 'Cannot add the image: its manifest is not of a form that is known here', {
      hint: 'Save one image alone: docker save IMAGE, or podman save IMAGE',
    })
  return parsed.data
}

/** A file of the archive's own: a manifest may name any path, and a link may lie there. */
function within(folder: string, path: string): string {
  const clean = normalize(path)
  const file = join(folder, clean)
  if (isAbsolute(clean) || clean.startsWith('..') || !lstatSync(file, { throwIfNoEntry: false })?.isFile())
    throw new Failure('bad_request', `Cannot add the image: its manifest names "${path}", which it does not hold`)
  return file
}

async function fileDigest(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex').slice(0, 12)
}
