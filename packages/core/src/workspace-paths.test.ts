import { expect, test } from 'vitest'
import { refusePath } from './workspace-paths.ts'

const options = { home: '/home/ann', own: ['/home/ann/.local/state/anchorhold', '/srv/anchorhold'] }

test.each([
  ['/', /whole file system/],
  ['/etc', /system/],
  ['/usr/local/src', /system/],
  ['/home', /system or of all users/],
  ['/home/ann', /whole home/],
  ['/home/ann/.ssh', /keys/],
  ['/home/ann/.config/git', /keys/],
  ['/srv/anchorhold', /Anchorhold itself/],
  ['/srv/anchorhold/sessions/x', /Anchorhold itself/],
  ['/home/ann/.local', /contains what Anchorhold/],
  ['relative', /absolute/],
  ['/tmp/a\0b', /absolute/],
])('refusePath() refuses %j', (path, why) => {
  expect(refusePath(path, options)).toMatch(why)
})

test.each(['/home/ann/src/app', '/home/ann/.ssh-notes', '/tmp/x', '/root/ws', '/srv/anchorhold-app', '/var/www/site'])(
  'refusePath() accepts %j',
  (path) => {
    expect(refusePath(path, options)).toBeNull()
  },
)
