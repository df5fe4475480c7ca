import type { LedgerNode } from '@anchorhold/protocol/link'
import type { SessionId } from '@anchorhold/protocol/ids'
import { local, plainAuthority } from '../test-gate.ts'

export const sessions = [
  'ses_0000000000000001',
  'ses_0000000000000002',
  'ses_0000000000000003',
  'ses_0000000000000004',
] as SessionId[]

export const hourMs = 3_600_000
export const about = { provider: 'p', model: 'm', simulated: false, notional: false }
export const terms = {
  folder: '/w',
  dialect: 'messages',
  provider: local('http://localhost'),
  rules: { allow: [] },
  paused: false,
  spend: 'stop' as const,
  network: 'none' as const,
  net: { ca: null, mirrors: {}, forges: {}, credentials: [], model_hosts: [], slowness: 1 },
  authority: plainAuthority,
}
export const wish = (nanos: number) => ({ promptNanos: nanos, perOutputToken: 0, maxTokens: 1, thinkingTokens: 0 })
export const usage = (cost_nanos: number) => ({
  ...about,
  tokens: { input: 0, output: 0, cache_read: 0, cache_write: 0 },
  cost_nanos,
  estimated: false,
  status: 200,
  duration_ms: 1,
})
export const tick = () => new Promise(setImmediate)
export type NodeCaps = LedgerNode['caps']
