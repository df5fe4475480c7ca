import { expect, test } from 'vitest'
import { spendingCsv } from './spending-csv.ts'

const row = {
  key: 'ses_1',
  name: 'a',
  simulated: false,
  calls: 2,
  tokens: { input: 1, output: 2, cache_read: 3, cache_write: 4 },
  cost_micros: 1,
  cost_nanos: 12_000_000_005,
}

test('spendingCsv() gives every sum to the nano-USD', () => {
  expect(spendingCsv('session', [row])).toBe(
    'session,name,simulated,calls,input,output,cache_read,cache_write,cost_usd\r\nses_1,a,false,2,1,2,3,4,12.000000005\r\n',
  )
})

test.each([
  ['=HYPERLINK("http://x")', `"'=HYPERLINK(""http://x"")"`],
  ['+1', `'+1`],
  ['a,b', `"a,b"`],
  ['two\nlines', `"two\nlines"`],
])('spendingCsv() lets no name be a formula or break its line: %j', (name, shown) => {
  expect(spendingCsv('session', [{ ...row, name }])).toContain(`ses_1,${shown},false`)
})
