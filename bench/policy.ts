import { compilePolicy, decide } from '@anchorhold/core/policy/decide'
import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import { plainMeaning } from '@anchorhold/core/policy/meaning'
import { toolMeaning } from '@anchorhold/core/policy/tool-meaning'
import type { Rule } from '@anchorhold/protocol/policy'
import { interleave, type Ratio } from './measure.ts'

const decisions = 2000

/** What deciding costs with many rules against what it costs with few. */
export async function policyBench(): Promise<Ratio[]> {
  const few = compilePolicy({ ...defaultPolicy, rules: rulesOf(10) })
  const many = compilePolicy({ ...defaultPolicy, rules: rulesOf(1000) })
  const bash = (command: string) => toolMeaning({ kind: 'tool', tool: 'Bash', input: { command } })
  const meanings = [
    bash('git status'),
    bash('npm test -- --watch && git push origin main'),
    bash('program-3 run x | program-7 stop'),
    toolMeaning({ kind: 'tool', tool: 'Read', input: { file_path: '/workspace/src/a.ts' } }),
    plainMeaning({ kind: 'net', host: 'a.host-2.example.org', port: 443, method: 'GET', path: '/x' }),
    plainMeaning({ kind: 'host', program: 'host-4', params: { env: 'staging' } }),
  ]
  const over = (compiled: typeof few) => async () => {
    for (let i = 0; i < decisions; i++) decide(compiled, meanings[i % meanings.length]!)
  }
  const times = await interleave(40, { few: over(few), many: over(many) }, { warmUp: 10 })
  return [
    {
      name: 'a decision over 1,000 rules ÷ over 10',
      value: times.ratio('many', 'few'),
      must: 2,
      record: 1.2,
      better: 'below',
      note: `${((times.ms.many / decisions) * 1000).toFixed(2)} µs a decision`,
    },
  ]
}

/** Of five kinds in turn: commands, tools, hosts below a domain, hosts with a method, programs of the host. */
function rulesOf(count: number): Rule[] {
  return Array.from({ length: count }, (_, i): Rule => {
    const effect = (['allow', 'ask', 'deny'] as const)[i % 3]!
    switch (i % 5) {
      case 0:
        return { on: 'tool', match: { tool: 'Bash', command: `program-${i} run *` }, effect }
      case 1:
        return { on: 'tool', match: { tool: `mcp__server__tool_${i}` }, effect }
      case 2:
        return { on: 'net', match: { host: `.host-${i}.example.org` }, effect }
      case 3:
        return { on: 'net', match: { host: `api-${i}.example.org`, method: 'GET', path: '/v1/*' }, effect }
      default:
        return { on: 'host', match: { program: `host-${i}`, params: { env: 'staging' } }, effect }
    }
  })
}
