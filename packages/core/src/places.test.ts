import { expect, test } from 'vitest'
import { endpointFile, places, tokenFile } from './places.ts'

const user = { uid: 1000, home: '/home/me', env: {}, stateFlag: null }

test.each([
  ['by the XDG defaults for a user', user, '/home/me/.local/state/anchorhold', '/home/me/.config/anchorhold', false],
  [
    'by the XDG variables where they are set',
    { ...user, env: { XDG_STATE_HOME: '/s', XDG_CONFIG_HOME: '/c' } },
    '/s/anchorhold',
    '/c/anchorhold',
    false,
  ],
  [
    'by the defaults where the variables are empty',
    { ...user, env: { XDG_STATE_HOME: '', ANCHORHOLD_STATE: '' } },
    '/home/me/.local/state/anchorhold',
    '/home/me/.config/anchorhold',
    false,
  ],
  ['by the file hierarchy for root', { ...user, uid: 0, home: '/root' }, '/var/lib/anchorhold', '/etc/anchorhold', false],
  ['under one folder when that is asked for', { ...user, env: { ANCHORHOLD_STATE: '/one' } }, '/one', '/one/config', true],
  [
    'by the flag before all else',
    { ...user, uid: 0, env: { ANCHORHOLD_STATE: '/one' }, stateFlag: '/two' },
    '/two',
    '/two/config',
    true,
  ],
])('places() are %s', (_, input, state, config, moved) => {
  expect(places(input)).toEqual({ state, config, moved })
})

test('endpointFile() and tokenFile() lie in the state folder', () => {
  expect([endpointFile('/s'), tokenFile('/s')]).toEqual(['/s/daemon.json', '/s/cli.token'])
})
