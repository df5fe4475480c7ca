// Prints what this machine can isolate, as JSON.
import { homedir } from 'node:os'
import { examine } from './doctor.ts'

console.log(JSON.stringify(await examine({ home: homedir() })))
