import { Failure } from '@anchorhold/protocol/failures'
import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import { cacheEnvironment } from './caches.ts'
import type { CellSpec } from './cells/cell.ts'
import type { Toolchain } from './cells/toolchains.ts'
import { trustFolder } from './trust.ts'

/** What programs in a session's cell find there besides its files. */
export type Outfit = {
  readonly mounts: CellSpec['mounts']
  /** Folders of toolchains, for PATH. */
  readonly path: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** The host's folder with whom they are to trust; null where they trust whom they would anyway. */
  readonly trust: string | null
}

/** No cell is started without what was asked for. */
export function requireToolchains(asked: readonly string[], offered: readonly Toolchain[]): void {
  const unknown = asked.find((wanted) => !offered.some(({ name }) => name === wanted))
  if (unknown === undefined) return
  throw new Failure('cell_unavailable', `There is no toolchain "${unknown}"`, { hint: 'anchorhold doctor names them' })
}

export function outfit(
  { place: { folder }, policy: { network, toolchains, env, caches } }: Pick<KeeperStart, 'place' | 'policy'>,
  offered: readonly Toolchain[],
): Outfit {
  const chosen = offered.filter(({ name }) => toolchains.includes(name))
  const told = caches === null ? {} : cacheEnvironment
  return {
    mounts: chosen.flatMap((toolchain) => toolchain.mounts),
    path: chosen.flatMap((toolchain) => toolchain.path),
    env: Object.assign({}, told, ...chosen.map((toolchain) => toolchain.env), env) as Record<string, string>,
    trust: network === 'proxy_only' ? trustFolder(folder) : null,
  }
}
