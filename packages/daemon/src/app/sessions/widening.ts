import { type Actor, may } from '@anchorhold/core/actors'
import { Failure } from '@anchorhold/protocol/failures'
import { Rung } from '@anchorhold/protocol/rungs'
import type { SessionOptions } from '@anchorhold/protocol/session-options'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import type { Config } from '../../config.ts'

/** The rung that the owner has pinned somebody to; a token may be pinned where its user is not. */
function pinOf(pins: Config['pins'], { name, token }: Actor): Rung | undefined {
  const pinned = [name, token ?? ''].find((one) => Object.hasOwn(pins, one))
  return pinned === undefined ? undefined : pins[pinned]
}

/** Whom the owner has pinned to a rung gets that one. Null where nothing is said: then house and policy settle it. */
export function rungFor({ pins }: Pick<Config, 'pins'>, actor: Actor, asked: Rung | undefined): Rung | null {
  const pinned = pinOf(pins, actor)
  if (pinned === undefined) return asked ?? null
  if (asked !== undefined && asked !== pinned)
    throw new Failure('forbidden', `"${actor.name}" works on the rung "${pinned}" and on no other`, {
      hint: 'The owner sets this in config.yaml: pins',
    })
  return pinned
}

/** From the weakest to the strongest. */
const strength = (rung: Rung) => Rung.options.indexOf(rung)

/** Refuses a session that would be given more than the house gives by itself, where whoever asks may not widen anything. */
export function refuseWider(
  { rung: usual, pins, repoFilter, network }: Pick<Config, 'rung' | 'pins' | 'repoFilter' | 'network'>,
  actor: Actor,
  options: SessionOptions,
  rung: Rung,
): void {
  if (may(actor, 'session.create_wider')) return
  const wider = [
    rung === 'none' && 'the rung "none"',
    // A pin is the owner's word.
    pinOf(pins, actor) === undefined && strength(rung) < strength(usual) && `the rung "${rung}"`,
    options.extras !== undefined && Object.values(options.extras).includes(true) && 'extras',
    network === 'none' && options.network === 'proxy_only' && 'a net window',
    options.network === 'host' && "the host's network",
    options.repo !== undefined && 'a repository of its choice',
    options.group !== undefined && 'the budget of a group',
    options.workspace_settings === 'load' && 'the settings of the workspace',
    options.repo_filter !== undefined && shows(options.repo_filter, repoFilter) && 'files that the filter hides',
  ].find((one) => one !== false)
  if (wider === undefined) return
  throw new Failure('forbidden', `"${actor.name}" may not start a session with ${wider}: an agent widens nothing`, {
    hint: 'Leave it out, or let a person start the session',
  })
}

/** Whether this filter may show what the other hides. Of two lists of patterns nobody can say. */
function shows(asked: RepoFilter, usual: RepoFilter): boolean {
  const hides = { none: 0, standard: 1, strict: 2 } as const
  if (typeof asked === 'string' && typeof usual === 'string') return hides[asked] < hides[usual]
  return asked !== 'strict' && JSON.stringify(asked) !== JSON.stringify(usual)
}
