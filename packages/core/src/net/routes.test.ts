import type { Rule } from '@anchorhold/protocol/policy'
import { expect, test } from 'vitest'
import { routesOf } from './routes.ts'

const net = (match: Extract<Rule, { on: 'net' }>['match'], more: object = {}): Rule => ({
  on: 'net',
  match,
  effect: 'allow',
  ...more,
})
const to = (port: number) => ({ host: 'a.org', port, isAddress: false })

test('routesOf() lets what a rule without a port says of how hold for the ports that it is for', () => {
  const routeOf = routesOf([net({ host: 'a.org' }, { how: 'open', only_ours: true })])
  expect([443, 80, 22].map((port) => routeOf(to(port)))).toEqual([
    { how: 'open', ownNetwork: false, onlyOurs: true },
    { how: 'open', ownNetwork: false, onlyOurs: true },
    { how: 'tunnel', ownNetwork: false, onlyOurs: false },
  ])
  // What denies a path is looked for on every port.
  expect(routesOf([net({ host: 'a.org', path: '/x' }, { effect: 'deny' })])(to(8443)).how).toBe('open')
})

test('routesOf() opens what no credential of a cell may go to, whatever another rule says', () => {
  const routeOf = routesOf([net({ host: '.org' }, { how: 'tunnel' }), net({ host: 'a.org' }, { only_ours: true })])
  expect(routeOf(to(443))).toMatchObject({ how: 'open', onlyOurs: true })
})
