import { asks, testSchedules } from './schedule.ts'

testSchedules(asks, 2400, 'stories of requests and their answers')
