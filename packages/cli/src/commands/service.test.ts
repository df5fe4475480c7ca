import { expect, test } from 'vitest'
import { launchdPlist, systemdUnit } from './service.ts'

const one = { node: '/opt/node', script: '/opt/ah/dist/daemon.mjs', state: null, root: false }

test('systemdUnit() ends only the daemon with the unit, so that agents go on', () => {
  expect(systemdUnit(one)).toBe(`[Unit]
Description=Anchorhold, a home for coding agents
After=network.target

[Service]
ExecStart="/opt/node" "--disable-warning=ExperimentalWarning" "/opt/ah/dist/daemon.mjs"
Restart=on-failure
KillMode=process
Delegate=yes
NoNewPrivileges=yes

[Install]
WantedBy=default.target
`)
})

test('systemdUnit() of root belongs to the system, and may become other users', () => {
  const unit = systemdUnit({ ...one, root: true, state: '/srv/ah' })
  expect(unit).toContain('"--state" "/srv/ah"\n')
  expect(unit).toContain('NoNewPrivileges=no\n')
  expect(unit).toContain('WantedBy=multi-user.target\n')
})

test('systemdUnit() leaves nothing of a path for systemd to interpret', () => {
  expect(systemdUnit({ ...one, state: '/a b/%h/$HOME/"x"\\' })).toContain('"--state" "/a b/%%h/$$HOME/\\"x\\"\\\\"\n')
})

test('launchdPlist() escapes what XML would take for its own', () => {
  const plist = launchdPlist({ ...one, state: '/a & b/<c>' })
  expect(plist).toContain('    <string>/a &amp; b/&lt;c></string>\n')
  expect(plist).toContain('<key>AbandonProcessGroup</key><true/>')
})
