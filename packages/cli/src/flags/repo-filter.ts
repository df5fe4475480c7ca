import { requirePatterns, standardNames } from '@anchorhold/core/policy/repo-filters'
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
    .option(
      '--hide <pattern>',
      'what else the cell does not see, or all of it with a custom filter; may be given several times',
      collect,
      [],
    )
    .option('--show <pattern>', 'what it sees nevertheless; may be given several times', collect, [])
}

/** Undefined where nothing was said. What is hidden or shown without naming a filter is so beside what the standard one hides. */
export function repoFilterOf(flags: RepoFilterFlags): RepoFilter | undefined {
  const filter = filterOf(flags)
  requirePatterns(filter)
  return filter
}

function filterOf({ repoFilter, hide, show }: RepoFilterFlags): RepoFilter | undefined {
  const isOwn = hide.length > 0 || show.length > 0
  if (repoFilter === 'custom' ? hide.length === 0 : isOwn && repoFilter !== undefined)
    throw new Failure(
      'bad_request',
      'Cannot tell which filter is meant: --hide and --show add to the standard one, or make a custom one, which needs a --hide',
      {
        hint: "Leave --repo-filter out, or write --repo-filter custom --hide '*.secret', which hides nothing else",
      },
    )
  if (repoFilter === 'custom') return { denylist: [...hide], allowlist: [...show] }
  if (repoFilter !== undefined || !isOwn) return repoFilter
  return { denylist: [...standardNames.hide, ...hide], allowlist: [...standardNames.show, ...show] }
}
