import { existsSync } from 'node:fs'
import { isWithin } from './layout.ts'

/** A folder of this host's that something may be mounted on in a mount namespace of a cell's own: one that the kernel gives as a place for
 *  mounts, or that people leave empty, and that none of `sources` lies in. Null when there is none. */
export function freePlace(sources: readonly string[]): string | null {
  const isFree = (place: string) => existsSync(place) && !sources.some((source) => isWithin(source, place))
  return ['/sys/kernel/debug', '/sys/kernel/security', '/sys/kernel/config', '/mnt', '/media'].find(isFree) ?? null
}
