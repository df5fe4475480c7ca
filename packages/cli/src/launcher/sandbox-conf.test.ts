import { expect, test } from 'vitest'
import { parseSandboxConf } from './sandbox-conf.ts'

const read = (text: string) => parseSandboxConf(text, '/c', { HOME: '/home/me' })

test('parseSandboxConf() reads the assignments and the list', () => {
  expect(
    read(`# Default bridge URL
BRIDGE_URL="http://localhost:3000"

EXTRA_MOUNTS=(
    "$HOME/.gitconfig:$HOME/.gitconfig:ro"  # names
    '/opt/$tools:/opt/tools:ro'
    \${HOME}/x:/opt/x:ro
)
ALLOW_NETWORK=true
ALLOW_LOCALHOST_ONLY=yes
VERBOSE=false
`),
  ).toEqual({
    bridgeUrl: 'http://localhost:3000',
    mounts: ['/home/me/.gitconfig:/home/me/.gitconfig:ro', '/opt/$tools:/opt/tools:ro', '/home/me/x:/opt/x:ro'],
    allowNetwork: true,
    localhostOnly: true,
    verbose: false,
  })
})

test('parseSandboxConf() reads an empty file, an empty list and a list in one line', () => {
  expect(read('')).toEqual({ mounts: [] })
  expect(read('EXTRA_MOUNTS=()')).toEqual({ mounts: [] })
  expect(read('EXTRA_MOUNTS=("/a:/opt/a:ro" "/b:/opt/b:ro") # two')).toEqual({ mounts: ['/a:/opt/a:ro', '/b:/opt/b:ro'] })
})

test.each([
  ['a command', 'BRIDGE_URL="$(touch /tmp/x)"', 'would run a command'],
  ['another command', 'BRIDGE_URL=`id`', 'would run a command'],
  ['a command of its own', 'rm -rf /', 'is not an assignment'],
  ['a second command', 'VERBOSE=true; rm -rf /', 'cannot be read'],
  ['a variable that is not there', 'BRIDGE_URL=$NOWHERE', '"NOWHERE" is not set'],
  ['an expansion with more to it', 'BRIDGE_URL=${HOME:-x}', 'cannot be read'],
  ['a name that is not known', 'LD_PRELOAD=/evil.so', '"LD_PRELOAD" is not known'],
  ['a list without an end', 'EXTRA_MOUNTS=(\n"/a:/b:ro"\n', 'has no end'],
  ['neither true nor false', 'VERBOSE=perhaps', 'neither true nor false'],
])('parseSandboxConf() refuses %s', (_, text, why) => {
  expect(() => read(text)).toThrow(why)
})
