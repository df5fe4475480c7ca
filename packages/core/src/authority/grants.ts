import type { Digest, Pin } from '@anchorhold/protocol/actions'
import type { Grant } from '@anchorhold/protocol/authority'
import type { RequestAction } from '@anchorhold/protocol/events'
import type { RequestId } from '@anchorhold/protocol/ids'
import { compilePolicy, type CompiledPolicy, decide } from '../policy/decide.ts'
import type { Meaning } from '../policy/meaning.ts'
import { affectsOthers } from '../policy/commands/effects.ts'
import { changedPin, differs, newPin } from './pins.ts'

/** What people have allowed and is not used up.
 *  Invariant: a grant for once is taken once, whatever is heard of it again. */
export interface Grants {
  /** A grant for just this action, used up by being taken if it is for once. */
  take(action: RequestAction, digest: Digest, pins: readonly Pin[]): Grant | { readonly changed: string } | null
  /** Grants for this session that cover more than one action, as long as what it executes is what was allowed: one, or those that cover
   *  its commands together. None where they do not. */
  takeRules(compiled: CompiledPolicy, meaning: Meaning, pins: readonly Pin[]): readonly Grant[]
  /** A grant for just this action, left where it is. */
  find(digest: Digest): Grant | null
  add(grant: Grant): void
  /** Only these, as far as they are not used up. */
  replace(grants: readonly Grant[]): void
  readonly all: readonly Grant[]
  readonly empty: boolean
}

export function openGrants(given: readonly Grant[], usedBefore: Iterable<RequestId>, now: () => number): Grants {
  const used = new Set(usedBefore)
  const grants = new Map<RequestId, Grant>()
  const isOver = ({ expires_at }: Grant) => expires_at !== null && expires_at <= now()
  const add = (grant: Grant) => {
    if (!used.has(grant.request)) grants.set(grant.request, grant)
  }
  const replace = (all: readonly Grant[]) => {
    grants.clear()
    for (const grant of all) add(grant)
  }
  replace(given)

  return {
    take(action, digest, pins) {
      for (const grant of grants.values()) {
        if (grant.digest !== digest || grant.rule !== null || exceeds(action, grant)) continue
        if (isOver(grant)) {
          grants.delete(grant.request)
          continue
        }
        const changed = changedPin(grant.pins, pins)
        if (changed !== null) {
          // What was allowed is not there any more; the next time somebody is asked anew.
          grants.delete(grant.request)
          return { changed: `"${changed}" is not what was allowed in ${grant.request}: it has changed since, so nothing was run` }
        }
        if (grant.scope === 'once') {
          grants.delete(grant.request)
          used.add(grant.request)
        }
        return grant
      }
      return null
    },
    takeRules({ policy }, meaning, pins) {
      // Where one of its files has changed, nobody knows what it would cover.
      const standing = [...grants.values()].filter((one) => one.rule !== null && !isOver(one) && !differs(one.pins, pins))
      const cover = (some: readonly Grant[]) => {
        if (
          newPin(
            some.flatMap((one) => one.pins),
            pins,
          ) !== undefined
        )
          return false
        const rules = some.flatMap(({ rule }) => rule ?? [])
        return decide(compilePolicy({ ...policy, rules: [...policy.rules, ...rules] }), meaning).effect === 'allow'
      }
      const one = standing.find((grant) => cover([grant]))
      if (one !== undefined) return [one]
      // Each was allowed by itself: together they must do no more than one after the other.
      if (meaning.commands?.some(({ words }) => affectsOthers(words)) === true || !cover(standing)) return []
      // Only those that it takes.
      return standing.reduce((left, grant) => {
        const others = left.filter((other) => other !== grant)
        return cover(others) ? others : left
      }, standing)
    },
    find: (digest) => [...grants.values()].find((one) => one.digest === digest && one.rule === null && !isOver(one)) ?? null,
    add,
    replace,
    get all() {
      return [...grants.values()]
    },
    get empty() {
      return grants.size === 0
    },
  }
}

/** A call that is made again has grown by what was said since; one that costs much more is another call. */
const exceeds = (action: RequestAction, { nanos }: Grant): boolean =>
  action.kind === 'spend' && nanos != null && action.needed_nanos > nanos * 1.25
