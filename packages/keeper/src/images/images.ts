import { ownerMark } from '@anchorhold/link/owner'
import { Failure } from '@anchorhold/protocol/failures'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { furnish } from './furnish.ts'

/** A root file system for cells, as a plain folder. `NAME-DIGEST` holds it, and `NAME` is a link to the one in use. */
export type Image = {
  /** As sessions choose it, or `NAME-DIGEST` for one that a newer one took the place of. */
  readonly name: string
  readonly digest: string
  readonly folder: string
  readonly root: string
  readonly madeAt: number
  readonly inUse: boolean
}

/** Everything in the folder of images, by name. */
export function listImages(images: string): Image[] {
  const entries = existsSync(images) ? readdirSync(images, { withFileTypes: true }) : []
  const inUse = new Map(
    entries.filter((each) => each.isSymbolicLink()).map(({ name }) => [readlinkSync(join(images, name)), name]),
  )
  return entries
    .filter((each) => each.isDirectory() && imageFolder.test(each.name))
    .map(({ name: folderName }) => {
      const folder = join(images, folderName)
      const name = inUse.get(folderName)
      const digest = folderName.slice(folderName.lastIndexOf('-') + 1)
      const madeAt = statSync(folder).mtimeMs
      return { name: name ?? folderName, digest, folder, root: join(folder, 'root'), madeAt, inUse: name !== undefined }
    })
    .sort((a, b) => a.name.localeCompare(b.name, 'en'))
}

/** Null when there is none of this name, or none of this digest where one is given. */
export function findImage(images: string, name: string, digest?: string): Image | null {
  return listImages(images).find((each) => each.name === name && (digest === undefined || each.digest === digest)) ?? null
}

/** Has `fill` make a root in an empty folder, makes it fit for cells, and puts it where sessions find it. Nobody else sees it before. */
export async function makeImage(
  { images, name, digest }: { readonly images: string; readonly name: string; readonly digest: string },
  fill: (root: string, work: string) => Promise<void>,
): Promise<Image> {
  const isRoot = process.getuid?.() === 0
  mkdirSync(images, { recursive: true, mode: isRoot ? 0o755 : 0o700 })
  chmodSync(images, isRoot ? 0o755 : 0o700)
  const work = mkdtempSync(join(images, `new-${ownerMark()}-`))
  try {
    const root = join(work, 'root')
    mkdirSync(root)
    await fill(root, work)
    await furnish(root)
    const folder = join(images, `${name}-${digest}`)
    const made = mkdtempSync(join(images, `new-${ownerMark()}-`))
    try {
      renameSync(root, join(made, 'root'))
      chmodSync(made, isRoot ? 0o755 : 0o700)
      // A half-removed one of the same digest would be in the way.
      if (existsSync(folder)) await removeTree(folder)
      renameSync(made, folder)
    } finally {
      await removeTree(made)
    }
    const link = join(work, 'link')
    symlinkSync(`${name}-${digest}`, link)
    renameSync(link, join(images, name))
  } finally {
    await removeTree(work)
  }
  return findImage(images, name)!
}

/** Removes what the name stands for. Sessions whose cells use it now lose their programs. */
export async function removeImage(images: string, name: string): Promise<void> {
  const image = findImage(images, name)
  if (image === null) throw new Failure('not_found', `There is no image "${name}"`, { hint: 'anchorhold image ls shows them' })
  if (image.inUse) await unlink(join(images, name))
  await removeTree(image.folder)
}

/** Of a root whose folders may be closed to their own owner. */
async function removeTree(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
}

const imageFolder = /^[a-z][a-z0-9-]*-[0-9a-f]{12}$/
