import { cellContract } from '../contract.ts'
import { bwrapDriver } from './bwrap.ts'

cellContract(bwrapDriver())
