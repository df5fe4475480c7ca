import { isWithin, refusePath } from '@anchorhold/core/workspace-paths'
import { O_PATH } from '@anchorhold/link/found-file'
import { Failure } from '@anchorhold/protocol/failures'
import type { WorkspaceAccess } from '@anchorhold/protocol/sessions'
import { execFile, spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { type FileHandle, open, realpath, stat } from 'node:fs/promises'
import { dirname, isAbsolute } from 'node:path'
import { promisify } from 'node:util'
import { makeFolder } from '../folders.ts'
import { readGranted, writeGranted } from './granted.ts'
import { type HeldFolder, holdFolder } from './held-folder.ts'
import { originOf } from './origin.ts'
import { copyTree, giveTree, removeTree, walkTree } from './trees.ts'

type User = { readonly uid: number; readonly gid: number }

/** A workspace that a cell can be given: where it is, and whom the cell must run as to have it. */
export type Workspace = {
  readonly path: string
  readonly runAs: User | null
  /** Paths whose access list got an entry for that user. */
  readonly grants: readonly string[]
  /** The host folder that it is, or was copied from, and where that folder's repository came from; null for an empty one. */
  readonly from: { readonly path: string; readonly origin: string | null } | null
}

export type WorkspaceOptions = {
  /** The folder asked for; null for an empty one of the session's own. */
  readonly asked: string | null
  readonly access: WorkspaceAccess | null
  /** Where the session's own workspace goes. */
  readonly own: string
  /** A user that no one else has, for when the daemon is root. */
  readonly fresh: User | null
  readonly home: string
  /** Folders of Anchorhold's own. */
  readonly reserved: readonly string[]
  /** Only folders below one of these; null for any. */
  readonly within: readonly string[] | null
  /** The file in which what is granted is written down, before it is. It lives until the session is in the log, or what was granted is
   *  undone. Whoever called undoes it (`undoFolder`), also where this failed halfway. */
  readonly granted: string
}

/** Finds or makes the folder that a session works in. As root, a host folder is entered as its owner; where that cannot
 *  be, this refuses and says which ways there are. */
export async function prepareWorkspace({
  asked,
  access,
  own,
  fresh,
  home,
  reserved,
  within,
  granted,
}: WorkspaceOptions): Promise<Workspace> {
  if (asked === null) {
    if (access !== null && access !== 'owner')
      throw new Failure('workspace_refused', `Cannot have the access "${access}" to a folder: none was named`, {
        hint: 'Name it with --workspace, or leave --copy, --snapshot, --acl and --chown out: the session has a folder of its own',
      })
    makeFolder(own, 0o755, fresh)
    return { path: own, runAs: fresh, grants: [], from: null }
  }
  const path = await resolveFolder(asked, home, reserved)
  if (within !== null && !within.some((folder) => isWithin(path, folder)))
    throw refused(
      asked,
      'it is not among the folders that are for everybody here',
      'An owner names them in config.yaml: shared_folders; or leave it out for an empty workspace',
    )
  if (within !== null && (access === 'acl' || access === 'chown'))
    throw refused(asked, 'only an owner changes who may use a folder of the host', 'Let the session work on a copy (--copy)')
  // From here on it is this folder, and no name is looked up again: others may be at work above it.
  await using folder = await holdFolder(path)
  const from = { path, origin: await originOf(folder.at) }
  if (access === 'copy' || access === 'snapshot') {
    const reader = within === null || fresh === null ? null : await ownerReading(folder)
    makeFolder(own, 0o755, fresh)
    await copyTree(folder, own, { reader, writer: fresh, without: access === 'snapshot' ? ['.git'] : [] })
    // The copy is there to be worked on, whatever the original was.
    makeFolder(own, 0o755, fresh)
    return { path: own, runAs: fresh, grants: [], from }
  }
  if (fresh === null) {
    if (access === 'acl' || access === 'chown')
      throw refused(
        path,
        `"${access}" changes who may use it, which only root does, and Anchorhold runs as you here`,
        'Leave --acl and --chown out: the cell enters the folder as you do',
      )
    if (!(await canEnter(path, null, 'writes')))
      throw refused(path, 'you cannot write to it', 'Choose a folder of yours, or let the session work on a copy: --copy')
    return { path, runAs: null, grants: [], from }
  }
  if (access === 'acl') {
    const grants = await grant(folder, fresh, granted)
    return { path, runAs: fresh, grants, from }
  }
  if (access === 'chown') await giveTree(folder.at, fresh)
  const { uid, gid } = await stat(folder.at)
  const ways =
    within !== null && uid === 0
      ? askAnOwner
      : 'Let the agent work on a copy (--copy), let it in by an access list entry that is undone when it has ended (--acl), or give it the folder (--chown)'
  if (uid === 0) throw refused(path, 'it belongs to root, and no cell runs as root', ways)
  if (!(await canEnter(path, { uid, gid }, 'writes')))
    throw refused(path, `its owner (uid ${uid}) cannot reach it or write to it`, ways)
  return { path, runAs: { uid, gid }, grants: [], from }
}

/** Whom a copy is read as for those who may not have any folder: its owner, as a session in the folder itself would be, so that by a
 *  copy nobody gets what only root can read there. */
async function ownerReading({ path, at }: HeldFolder): Promise<User> {
  const { uid, gid } = await stat(at)
  if (uid === 0) throw refused(path, 'it belongs to root, and only for an owner is anything read as root', askAnOwner)
  if (!(await canEnter(path, { uid, gid }, 'reads')))
    throw refused(path, `its owner (uid ${uid}) cannot reach it or read it`, askAnOwner)
  return { uid, gid }
}
const askAnOwner = 'An owner can work on a copy of it, or give it to somebody other than root who can reach it'

const refused = (path: string, why: string, hint: string) =>
  new Failure('workspace_refused', `Cannot use "${path}" as workspace: ${why}`, { hint })

async function resolveFolder(asked: string, home: string, reserved: readonly string[]): Promise<string> {
  if (!isAbsolute(asked) || asked.includes('\0')) throw refused(asked, 'it is not an absolute path', 'Give the whole path')
  let path: string
  try {
    path = await realpath(asked)
    if (!(await stat(path)).isDirectory()) throw refused(asked, 'it is not a folder', 'Give a folder')
  } catch (error) {
    if (error instanceof Failure) throw error
    throw refused(asked, 'there is no such folder', 'Make it first, or name another')
  }
  const why = refusePath(path, { home, own: reserved })
  if (why !== null)
    throw refused(
      asked,
      path === asked ? why : `it leads to "${path}": ${why}`,
      'Choose a folder that holds only what the agent is to work on',
    )
  return path
}

/** Whether that user can enter the folder and read it, and write to it, by trying. */
function canEnter(path: string, user: User | null, needs: 'reads' | 'writes'): Promise<boolean> {
  const script = `cd -- "$1" && test -r . && test -x .${needs === 'writes' ? ' && test -w .' : ''}`
  return new Promise((resolve) => {
    const child = spawn('/bin/sh', ['-c', script, 'sh', path], { stdio: 'ignore', cwd: '/', env: {}, ...user })
    child.once('error', () => resolve(false))
    child.once('exit', (code) => resolve(code === 0))
  })
}

/** Lets one more user in: to pass through the folders above where they need it, and to do all below. */
async function grant(folder: HeldFolder, user: User, granted: string): Promise<readonly string[]> {
  const { path } = folder
  const closed: string[] = []
  for (let above = dirname(path); above !== '/'; above = dirname(above)) {
    await using held = await holdFolder(above)
    if (((await stat(held.at)).mode & 0o001) === 0) closed.push(above)
  }
  const grants = [...closed, path]
  writeGranted(granted, { runAs: user, grants })
  try {
    for (const above of closed) {
      await using held = await holdFolder(above)
      await setfacl(['-m', `u:${user.uid}:--x`, '--', forChild(held)])
    }
    const entry = `u:${user.uid}:rwX`
    await overTree(folder, {
      folders: (paths) => setfacl(['-m', `${entry},d:${entry}`, '--', ...paths]),
      files: (paths) => setfacl(['-m', entry, '--', ...paths]),
    })
  } catch (error) {
    if (error instanceof Failure) throw error
    throw new Failure('workspace_refused', `Cannot give access to "${path}": ${lastLine(error)}`, {
      hint: 'The file system may have no access lists: let the session work on a copy (--copy)',
    })
  }
  return grants
}

/** Undoes what `acl` access added; the workspace itself comes last. A folder that is gone needs nothing, and what lies deeper than
 *  anything was granted is the agent's own. All that can be undone is; where something could not, this says so at its end, and may be
 *  done again. */
export async function revokeGrants(grants: readonly string[], user: User): Promise<void> {
  const left: string[] = []
  const attempt = (work: Promise<void>) => work.catch((error: unknown) => void left.push(lastLine(error)))
  const entry = `u:${user.uid}`
  for (const above of grants.slice(0, -1)) {
    await using held = await holdFolder(above).catch(() => null)
    if (held !== null) await attempt(setfacl(['-x', entry, '--', forChild(held)]))
  }
  for (const path of grants.slice(-1)) {
    await using held = await holdFolder(path).catch(() => null)
    if (held === null) continue
    const takeBack: OverTree = {
      folders: (paths) => attempt(setfacl(['-x', `${entry},d:${entry}`, '--', ...paths]).then(() => dropEmptyDefaults(paths))),
      files: (paths) => attempt(setfacl(['-x', entry, '--', ...paths])),
    }
    await attempt(overTree(held, takeBack, () => {}))
  }
  if (left.length > 0) throw new Error(`Cannot take back the access of the user ${user.uid} to "${grants.at(-1)}": ${left[0]}`)
}

/** Removes a folder once the access is undone that was granted for it, and is written down in that file. Otherwise both stay, to be found
 *  again. */
export async function undoFolder(base: string, file: string): Promise<void> {
  const granted = await readGranted(file)
  if (granted !== null) await revokeGrants(granted.grants, granted.runAs)
  await removeTree(base)
}

/** By which a child of the same user finds it. */
const forChild = ({ at }: HeldFolder) => at.replace('/self/', `/${process.pid}/`)

/** How many files are handed to one setfacl. */
const batchMax = 400

type OverTree = Readonly<Record<'folders' | 'files', (paths: readonly string[]) => Promise<void>>>

/** Does something to a folder and everything in it but links, many at a time. setfacl goes by names and follows what they lead to, so
 *  it is given open files instead of names: an agent at work there can no longer put anything else in their place. Where the way ends
 *  early, it is done to all that was passed until then. */
async function overTree({ at }: HeldFolder, change: OverTree, tooDeep?: () => void): Promise<void> {
  const held = { folders: [] as FileHandle[], files: [] as FileHandle[] }
  async function flush(which: keyof typeof held): Promise<void> {
    const handles = held[which].splice(0)
    try {
      if (handles.length > 0) await change[which](handles.map(({ fd }) => `/proc/${process.pid}/fd/${fd}`))
    } finally {
      for (const handle of handles) await handle.close()
    }
  }
  try {
    await walkTree(
      at,
      async (passed) => {
        if (passed.kind === 'link') return
        const handle = await open(passed.path, O_PATH | constants.O_NOFOLLOW)
        const stat = await handle.stat()
        if (stat.isSymbolicLink()) return handle.close()
        const which = stat.isDirectory() ? 'folders' : 'files'
        if (held[which].push(handle) >= batchMax) await flush(which)
      },
      tooDeep,
    )
  } finally {
    try {
      await flush('folders')
    } finally {
      await flush('files')
    }
  }
}

/** The first default entry of a folder brings entries for owner, group and others along, which stay when it goes and take
 *  the place of the umask. A list that names nobody is taken away. */
async function dropEmptyDefaults(paths: readonly string[]): Promise<void> {
  const { stdout } = await promisify(execFile)('getfacl', ['-p', '-n', '-d', '-s', '--', ...paths], {
    maxBuffer: 16 * 1024 * 1024,
  })
  const empty = stdout.split('\n\n').flatMap((block) => {
    const file = /^# file: (.*)$/m.exec(block)?.[1]
    return file === undefined || /^(?:user|group):[^:]+:/m.test(block) ? [] : [file]
  })
  if (empty.length > 0) await setfacl(['-k', '--', ...empty])
}

async function setfacl(args: readonly string[]): Promise<void> {
  try {
    await promisify(execFile)('setfacl', args)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw new Failure('workspace_refused', 'Cannot change access lists: setfacl is not installed', {
      hint: 'apt-get install -y acl',
    })
  }
}

/** Of what a program said, which stands under how it was called. */
const lastLine = (error: unknown) =>
  (error instanceof Error ? error.message : String(error)).trim().split('\n').at(-1)!.slice(0, 300)
