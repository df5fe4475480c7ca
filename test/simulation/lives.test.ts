import { lives, testSchedules } from './schedule.ts'

testSchedules(lives, 4500, 'lives of a session')
