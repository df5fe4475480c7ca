import { Failure } from '@anchorhold/protocol/failures'
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, lchown, lstat, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'

type User = { readonly uid: number; readonly gid: number }

/** A copy that follows no link and takes no owner along, read as one user and written as another. An agent may be at work
 *  in the tree: a folder that it swaps for a link under way must not lead the copy out of the cell, so it is done by tar,
 *  which opens every name relative to the folder above it and without following links (tar 1.24, "symbolic link races"). */
export async function copyTree(from: string, to: string, { reader, writer }: Copying): Promise<void> {
  const options = { cwd: '/', env: { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' } }
  const read = spawn('tar', ['-C', from, '--sparse', '-cf', '-', '.'], {
    ...options,
    ...reader,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const write = spawn('tar', ['-C', to, '-xpf', '-', '--no-same-owner'], {
    ...options,
    ...writer,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  // Should one of them end early, what it said tells why.
  const copied = pipeline(read.stdout, write.stdin).catch(() => {})
  const [reading, writing] = await Promise.all([outcome(read), outcome(write), copied])
  // 1 says that something changed or went while it was read.
  if (writing.code === 0 && (reading.code === 0 || reading.code === 1)) return
  const why = (writing.code === 0 ? reading : writing).said.split('\n')[0]!.slice(0, 300)
  throw new Failure('workspace_refused', `Cannot copy "${from}": ${why}`, { hint: 'Look at the free space and who may read it' })
}

type Copying = { readonly reader: User | null; readonly writer: User | null }

async function outcome(child: ChildProcess): Promise<{ readonly code: number | null; readonly said: string }> {
  const exited = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  const [code, said] = await Promise.all([exited, child.stderr === null ? '' : text(child.stderr)])
  return { code, said }
}

/** Removes everything below. Whoever worked there may have taken the right to write away, and without it an ordinary
 *  user cannot empty a folder. Nobody works there any more. */
export async function removeTree(path: string): Promise<void> {
  if (process.getuid?.() !== 0 && existsSync(path)) await openTree(path)
  await rm(path, { recursive: true, force: true })
}
async function openTree(folder: string): Promise<void> {
  await chmod(folder, 0o700)
  for (const entry of await readdir(folder, { withFileTypes: true }))
    if (entry.isDirectory()) await openTree(join(folder, entry.name))
}

/** Changes the owner of everything below, of links themselves and never of what they lead to. */
export async function giveTree(path: string, user: User): Promise<void> {
  await lchown(path, user.uid, user.gid)
  if (!(await lstat(path)).isDirectory()) return
  for (const name of await readdir(path)) await giveTree(join(path, name), user)
}
