import { cellContract } from '../contract.ts'
import { noneDriver } from './none.ts'

const bare = 'a plain process'
cellContract(noneDriver(), {
  'sees extra mounts at their target': 'a plain process sees the host as it is',
  'cannot write outside its folders': bare,
  'has no network but its own loopback': bare,
  'hands no descriptor but the standard streams on': bare,
  'refuses to be started by root without a user of its own': 'it is no boundary for anyone',
})
