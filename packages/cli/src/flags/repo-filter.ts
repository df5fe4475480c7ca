import { Failure } from '@anchorhold/protocol/failures'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import { type Command, Option } from 'commander'
import { collect } from './values.ts'

export type RepoFilterFlags = {
  readonly repoFilter?: 'none' | 'standard' | 'strict' | 'custom'
  readonly hide: readonly string[]
  readonly show: readonly string[]
}

/** The flags by which a command takes a filter: one that there is, or a list of one's own. */
export function withRepoFilter(command: Command): Command {
  return command
    .addOption(
      new Option('--repo-filter <which>', 'which secrets of the folder the cell does not see (default: standard)').choices([
        'none',
        'standard',
        'strict',
        'custom',
      ]),
    )
    .option('--hide <pattern>', 'with a custom filter: what the cell does not see; may be given several times', collect, [])
    .option('--show <pattern>', 'with a custom filter: what it sees nevertheless; may be given several times', collect, [])
}

/** Undefined where nothing was said. */
export function repoFilterOf({ repoFilter, hide, show }: RepoFilterFlags): RepoFilter | undefined {
  const isOwn = hide.length > 0 || show.length > 0
  if (repoFilter === 'custom' ? hide.length === 0 : isOwn && repoFilter !== undefined)
    throw new Failure(
      'bad_request',
      'Cannot tell which filter is meant: --hide and --show are for a custom one, which needs a --hide',
      {
        hint: "Write --repo-filter custom --hide '*.secret', or leave --hide and --show out",
      },
    )
  if (repoFilter !== undefined && repoFilter !== 'custom') return repoFilter
  if (!isOwn) return undefined
  if (hide.length === 0) throw new Failure('bad_request', '--show alone hides nothing', { hint: "Add --hide '*.secret'" })
  return { denylist: [...hide], allowlist: [...show] }
}
