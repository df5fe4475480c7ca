import type { Policy } from '@anchorhold/protocol/policy'
import { toolName } from './meaning.ts'
import { compileGlob } from './patterns.ts'

/** Says why a tool is denied whatever it is called with; null where it is not. */
export type DeniedTools = (tool: string) => string | null

/** The tools that a policy denies outright: by a rule that speaks of nothing but the tool, or by lists in which it is not named.
 *  Null where there are none, so that nobody needs to look. */
export function deniedTools({ rules, tools }: Pick<Policy, 'rules' | 'tools'>): DeniedTools | null {
  const denied = rules.flatMap((rule) => {
    if (rule.on !== 'tool' || rule.effect !== 'deny') return []
    const { tool = '*', ...narrower } = rule.match
    if (Object.values(narrower).some((one) => one !== undefined)) return []
    return [{ glob: compileGlob(toolName(tool)), why: rule.why }]
  })
  const lists = tools.map((list) => list.map((name) => compileGlob(toolName(name))))
  if (denied.length === 0 && lists.length === 0) return null
  return (asked) => {
    const name = toolName(asked)
    const rule = denied.find(({ glob }) => glob.fits(name))
    if (rule !== undefined) return rule.why ?? 'a rule denies it'
    return lists.every((list) => list.some((glob) => glob.fits(name))) ? null : 'allowed_tools does not name it'
  }
}
