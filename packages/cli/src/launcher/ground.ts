import type { Config } from '@anchorhold/daemon/config'
import { type Folders, gateUser, makeFolder } from '@anchorhold/daemon/folders'
import { delegateCgroups, withdrawCgroups } from '@anchorhold/daemon/processes/cgroups'
import { grantedIn } from '@anchorhold/daemon/workspace/granted'
import { giveTree } from '@anchorhold/daemon/workspace/trees'
import { prepareWorkspace, undoFolder, type Workspace } from '@anchorhold/daemon/workspace/workspace'
import { type Lock, takeLock } from '@anchorhold/link/lock'
import { ownerMark } from '@anchorhold/link/owner'
import type { WorkspaceAccess } from '@anchorhold/protocol/sessions'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** What a cell without a daemon stands on, all of it made for this one run. */
export type Ground = Pick<Workspace, 'runAs' | 'from'> & {
  /** The folder that everything lies in but what is kept. */
  readonly base: string
  readonly workspace: string
  readonly home: string
  readonly windows: string
  readonly scratch: string
  readonly cgroups: readonly string[]
}

export type Asked = {
  /** A whole path. */
  readonly workspace: string
  readonly access: WorkspaceAccess | null
  /** Whether its home is that of an agent, and found again the next time unless the workspace is a copy that goes with the cell. */
  readonly isAgent: boolean
}

/** A cell's own user as root, for as long as this process lives: nobody else has a number of this range. */
const launcherUid = (pid: number) => 1_890_000_000 + (pid % 8_000_000)

/** Makes it. What has been made is undone with the stack, also when the rest could not be. */
export async function prepareGround(
  { config, folders, warn }: { readonly config: Config; readonly folders: Folders; readonly warn: (line: string) => void },
  { workspace, access, isAgent }: Asked,
  undone: AsyncDisposableStack,
): Promise<Ground> {
  const { base, lock } = lockedFolder(`${realpathSync(folders.launched)}/${ownerMark()}-`, config.root ? 0o711 : 0o700)
  undone.defer(async () => lock?.release())
  // Before the lock is released: another launcher would take the folder for left behind, and remove it at the same time. What cannot be
  // undone stays written down there, for the next one to try again.
  undone.defer(() =>
    undoFolder(base, grantedIn(base)).catch((error: unknown) =>
      warn((error instanceof Error ? error.message : String(error)).split('\n')[0]!),
    ),
  )
  const uid = launcherUid(process.pid)
  const { path, runAs, from } = await prepareWorkspace({
    asked: workspace,
    access,
    own: join(base, 'workspace'),
    fresh: config.root ? { uid, gid: uid } : null,
    home: config.home,
    reserved: [config.state, config.config],
    within: null,
    granted: grantedIn(base),
  })
  const home = isAgent && !path.startsWith(`${base}/`) ? keptHome(folders.state, path, runAs) : join(base, 'home')
  const [windows, scratch] = [join(base, 'windows'), join(base, 'cell')]
  const isNew = !existsSync(home)
  makeFolder(scratch, 0o700, runAs)
  // What is put into a new one is there before it is the user's, who could lay a link in the way.
  makeFolder(home, 0o700, isNew ? null : runAs)
  if (isAgent && isNew) furnishHome(home)
  if (runAs !== null && (isAgent || isNew)) await giveTree(home, runAs)
  makeFolder(windows, runAs === null ? 0o700 : 0o770, runAs === null ? null : { uid: runAs.uid, gid: gateUser.gid })
  const cgroups = runAs === null ? [] : delegateCgroups(`launcher-${process.pid}`, runAs)
  undone.defer(async () => withdrawCgroups(cgroups))
  return { base, workspace: path, runAs, from, home, windows, scratch, cgroups }
}

/** A new folder whose lock this process holds. In the moment before it does, another launcher can take the folder for left behind, and
 *  remove it: then there is another. */
function lockedFolder(prefix: string, mode: number, tries = 3): { readonly base: string; readonly lock: Lock | null } {
  const base = mkdtempSync(prefix)
  makeFolder(base, mode)
  const lock = takeLock(join(base, 'lock'))
  return lock === null && tries > 1 ? lockedFolder(prefix, mode, tries - 1) : { base, lock }
}

/** A conversation goes on where it was left: an agent's home is kept for each folder that it works in. */
function keptHome(state: string, workspace: string, runAs: Workspace['runAs']): string {
  const homes = join(state, 'homes')
  makeFolder(homes, runAs === null ? 0o700 : 0o711)
  return join(homes, createHash('sha256').update(workspace).digest('hex').slice(0, 16))
}

/** Who starts the agent here has seen what Anchorhold says of it; its own first questions would only stand in the way. */
function furnishHome(home: string): void {
  makeFolder(join(home, '.claude'), 0o700)
  const settled = { hasCompletedOnboarding: true, theme: 'dark', projects: { '/workspace': { hasTrustDialogAccepted: true } } }
  writeFileSync(join(home, '.claude/.claude.json'), JSON.stringify(settled), { mode: 0o600 })
  writeFileSync(join(home, '.gitconfig'), '[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n', { mode: 0o644 })
}
