import type { Pin } from '@anchorhold/protocol/actions'

/** The first file that is not as it was, or that was not there. */
export function changedPin(before: readonly Pin[], after: readonly Pin[]): string | null {
  return (newPin(before, after) ?? newPin(after, before))?.path ?? null
}

/** The first of `pins` that is not among those. */
export function newPin(among: readonly Pin[], pins: readonly Pin[]): Pin | undefined {
  const known = new Set(among.map(({ path, sha256 }) => `${sha256} ${path}`))
  return pins.find(({ path, sha256 }) => !known.has(`${sha256} ${path}`))
}

/** Whether a file is among both, and not the same. */
export function differs(before: readonly Pin[], after: readonly Pin[]): boolean {
  const known = new Map(before.map(({ path, sha256 }) => [path, sha256]))
  return after.some(({ path, sha256 }) => (known.get(path) ?? sha256) !== sha256)
}
