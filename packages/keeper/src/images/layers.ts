import type { Stats } from 'node:fs'
import { chmod, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

const whiteout = '.wh.'
const opaque = '.wh..wh..opq'

/** Lays what `layer` holds over `root`, moving it there. No link is ever followed: each step goes from one real folder to the next, and
 *  whatever else stands in the way goes.
 *  https://github.com/opencontainers/image-spec/blob/main/layer.md */
export async function layInto(root: string, layer: string): Promise<void> {
  const entries = await readdir(layer, { withFileTypes: true })
  // Whiteouts speak of the layers below, not of what comes beside them.
  if (entries.some(({ name }) => name === opaque)) {
    for (const name of await readdir(root)) await remove(join(root, name))
  }
  for (const { name } of entries) {
    if (name.startsWith(whiteout) && name !== opaque) {
      const hidden = name.slice(whiteout.length)
      if (hidden !== '' && hidden !== '.' && hidden !== '..') await remove(join(root, hidden))
    }
  }
  for (const entry of entries.filter(({ name }) => !name.startsWith(whiteout))) {
    const [from, to] = [join(layer, entry.name), join(root, entry.name)]
    const there = await statOf(to)
    if (!entry.isDirectory()) {
      if (there !== null) await remove(to)
      await rename(from, to)
    } else if (!there?.isDirectory()) {
      if (there !== null) await remove(to)
      await mkdir(to)
      await enter(to, from)
    } else await enter(to, from)
  }
}

async function enter(root: string, layer: string): Promise<void> {
  const { mode } = await lstat(layer)
  // A folder that is closed even to its owner could not be moved out of.
  await chmod(layer, 0o700)
  await chmod(root, 0o700)
  await layInto(root, layer)
  await chmod(root, mode & 0o7777)
}

async function statOf(path: string): Promise<Stats | null> {
  return lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
}

const remove = (path: string) => rm(path, { recursive: true, force: true })
