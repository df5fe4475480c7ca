import type { Policy } from '@anchorhold/protocol/policy'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** What is in force where no policy says otherwise: inside its wall an agent uses its tools without asking. */
export const defaultPolicy: Policy = {
  rules: [],
  autonomy: 'full',
  observe: false,
  models: [],
  tools: [],
  max_context_tokens: null,
  breakers: { repeats: 5, errors: 10, turns: null },
  park_after_ms: 15 * minuteMs,
  request_ms: 7 * 24 * hourMs,
  grant_ms: 24 * hourMs,
}
