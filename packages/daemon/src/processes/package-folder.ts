import { existsSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Where a package is installed, found as Node finds it, from this program's folder upwards; null where it is not. `require.resolve` makes
 *  out first what a package lets be seen of itself, which is felt at every start. */
export function packageFolder(name: string, from: string = import.meta.dirname): string | null {
  for (let at = from; ; at = dirname(at)) {
    const folder = join(at, 'node_modules', name)
    if (existsSync(folder)) return realpathSync(folder)
    if (at === dirname(at)) return null
  }
}
