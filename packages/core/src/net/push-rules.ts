import type { PushRule } from '@anchorhold/protocol/forges'
import { compileGlob } from '../policy/patterns.ts'
import type { RefUpdate } from './receive-pack.ts'

/** Why an update of a ref is not let through; null when it is. */
export function pushRefusal({ branches, tags, deletes }: PushRule, { ref, kind }: RefUpdate): string | null {
  const branch = /^refs\/heads\/(.+)$/.exec(ref)?.[1]
  const tag = /^refs\/tags\/(.+)$/.exec(ref)?.[1]
  if (branch === undefined && tag === undefined) return 'only branches and tags are pushed from a cell'
  const globs = branch === undefined ? tags : branches
  const name = branch ?? tag ?? ''
  if (!globs.some((glob) => compileGlob(glob).fits(name)))
    return branch === undefined
      ? 'no rule lets this tag be pushed'
      : `only ${globs.length === 0 ? 'what nobody has named' : globs.join(', ')} may be pushed`
  if (kind === 'delete' && !deletes) return 'no rule lets anything be deleted'
  return null
}
