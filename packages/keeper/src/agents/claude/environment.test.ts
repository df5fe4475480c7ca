import { expect, test } from 'vitest'
import { netEnvironment } from '../net-route.ts'
import { claudeEnvironment } from './environment.ts'

const cell = { home: '/home/agent', path: [], slowness: 1, model: { socket: '/run/windows/model.sock' } }

test('claudeEnvironment() has no proxy asked for the model, where there is one', () => {
  const { NO_PROXY, no_proxy, ANTHROPIC_BASE_URL } = claudeEnvironment({ ...cell, env: netEnvironment })
  const host = new URL(ANTHROPIC_BASE_URL!).hostname
  expect([NO_PROXY, no_proxy]).toEqual([`${netEnvironment.NO_PROXY},${host}`, `${netEnvironment.no_proxy},${host}`])
  expect(claudeEnvironment({ ...cell, env: {} })).not.toHaveProperty('NO_PROXY')
})
