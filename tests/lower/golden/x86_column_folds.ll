declare <8 x i32> @llvm.smax.v8i32(<8 x i32>, <8 x i32>)
declare <8 x i32> @llvm.smin.v8i32(<8 x i32>, <8 x i32>)
!0 = !{i32 1}
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare <8 x i32> @llvm.masked.load.v8i32.p0(ptr, <8 x i1>, <8 x i32>)
declare void @llvm.masked.store.v8i32.p0(<8 x i32>, ptr, <8 x i1>)
declare void @llvm.x86.sse.sfence()
define void @columns_i32(ptr %dims, ptr %buffers, ptr %scratch, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" "min-legal-vector-width"="256" {
entry:
  %v0 = load i64, ptr %dims, align 8
  %p1 = getelementptr i64, ptr %dims, i64 1
  %v2 = load i64, ptr %p1, align 8
  %b3 = load ptr, ptr %buffers, align 8
  %p4 = getelementptr ptr, ptr %buffers, i64 1
  %b5 = load ptr, ptr %p4, align 8
  %p6 = getelementptr ptr, ptr %buffers, i64 2
  %b7 = load ptr, ptr %p6, align 8
  %p8 = getelementptr ptr, ptr %buffers, i64 3
  %b9 = load ptr, ptr %p8, align 8
  %v10 = mul nsw i64 %v2, 12
  %v11 = icmp sge i64 %v10, 16777216
  %v21 = and i64 %v2, -32
  %v81 = ptrtoint ptr %b5 to i64
  %v82 = and i64 %v81, 63
  %v83 = icmp eq i64 %v82, 0
  %v84 = and i1 %v83, %v11
  %v95 = ptrtoint ptr %b7 to i64
  %v96 = and i64 %v95, 63
  %v97 = icmp eq i64 %v96, 0
  %v98 = and i1 %v97, %v11
  %v109 = ptrtoint ptr %b9 to i64
  %v110 = and i64 %v109, 63
  %v111 = icmp eq i64 %v110, 0
  %v112 = and i1 %v111, %v11
  %v124 = and i64 %v2, -8
  %v14 = icmp slt i64 %begin, %end
  br i1 %v14, label %run12, label %done13
run12:
  br label %grid15
grid15:
  %i17 = phi i64 [ %begin, %run12 ], [ %i204, %none19 ]
  %v20 = icmp sgt i64 %v2, 0
  br i1 %v20, label %some18, label %none19
some18:
  %v24 = icmp slt i64 0, %v21
  br i1 %v24, label %lanes22, label %lanes.end23
lanes22:
  %i25 = phi i64 [ 0, %some18 ], [ %i122, %stored115 ]
  %p44 = getelementptr i32, ptr %b3, i64 %i25
  %v28 = icmp sgt i64 %v0, 0
  br i1 %v28, label %some26, label %none27
some26:
  br label %serial29
serial29:
  %i31 = phi i64 [ 0, %some26 ], [ %i66, %serial29 ]
  %c32 = phi <8 x i32> [ splat (i32 0), %some26 ], [ %v54, %serial29 ]
  %c33 = phi <8 x i32> [ splat (i32 0), %some26 ], [ %v55, %serial29 ]
  %c34 = phi <8 x i32> [ splat (i32 0), %some26 ], [ %v56, %serial29 ]
  %c35 = phi <8 x i32> [ splat (i32 0), %some26 ], [ %v57, %serial29 ]
  %c36 = phi <8 x i32> [ splat (i32 -2147483648), %some26 ], [ %v58, %serial29 ]
  %c37 = phi <8 x i32> [ splat (i32 -2147483648), %some26 ], [ %v59, %serial29 ]
  %c38 = phi <8 x i32> [ splat (i32 -2147483648), %some26 ], [ %v60, %serial29 ]
  %c39 = phi <8 x i32> [ splat (i32 -2147483648), %some26 ], [ %v61, %serial29 ]
  %c40 = phi <8 x i32> [ splat (i32 2147483647), %some26 ], [ %v62, %serial29 ]
  %c41 = phi <8 x i32> [ splat (i32 2147483647), %some26 ], [ %v63, %serial29 ]
  %c42 = phi <8 x i32> [ splat (i32 2147483647), %some26 ], [ %v64, %serial29 ]
  %c43 = phi <8 x i32> [ splat (i32 2147483647), %some26 ], [ %v65, %serial29 ]
  %v45 = mul nsw i64 %i31, %v2
  %p46 = getelementptr i32, ptr %p44, i64 %v45
  %v47 = load <8 x i32>, ptr %p46, align 4
  %p48 = getelementptr i8, ptr %p46, i64 32
  %v49 = load <8 x i32>, ptr %p48, align 4
  %p50 = getelementptr i8, ptr %p46, i64 64
  %v51 = load <8 x i32>, ptr %p50, align 4
  %p52 = getelementptr i8, ptr %p46, i64 96
  %v53 = load <8 x i32>, ptr %p52, align 4
  %v54 = add <8 x i32> %c32, %v47
  %v55 = add <8 x i32> %c33, %v49
  %v56 = add <8 x i32> %c34, %v51
  %v57 = add <8 x i32> %c35, %v53
  %v58 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c36, <8 x i32> %v47)
  %v59 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c37, <8 x i32> %v49)
  %v60 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c38, <8 x i32> %v51)
  %v61 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c39, <8 x i32> %v53)
  %v62 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c40, <8 x i32> %v47)
  %v63 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c41, <8 x i32> %v49)
  %v64 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c42, <8 x i32> %v51)
  %v65 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c43, <8 x i32> %v53)
  %i66 = add nsw i64 %i31, 1
  %v67 = icmp slt i64 %i66, %v0
  br i1 %v67, label %serial29, label %serial.end30
serial.end30:
  br label %none27
none27:
  %v68 = phi <8 x i32> [ splat (i32 0), %lanes22 ], [ %v54, %serial.end30 ]
  %v69 = phi <8 x i32> [ splat (i32 0), %lanes22 ], [ %v55, %serial.end30 ]
  %v70 = phi <8 x i32> [ splat (i32 0), %lanes22 ], [ %v56, %serial.end30 ]
  %v71 = phi <8 x i32> [ splat (i32 0), %lanes22 ], [ %v57, %serial.end30 ]
  %v72 = phi <8 x i32> [ splat (i32 -2147483648), %lanes22 ], [ %v58, %serial.end30 ]
  %v73 = phi <8 x i32> [ splat (i32 -2147483648), %lanes22 ], [ %v59, %serial.end30 ]
  %v74 = phi <8 x i32> [ splat (i32 -2147483648), %lanes22 ], [ %v60, %serial.end30 ]
  %v75 = phi <8 x i32> [ splat (i32 -2147483648), %lanes22 ], [ %v61, %serial.end30 ]
  %v76 = phi <8 x i32> [ splat (i32 2147483647), %lanes22 ], [ %v62, %serial.end30 ]
  %v77 = phi <8 x i32> [ splat (i32 2147483647), %lanes22 ], [ %v63, %serial.end30 ]
  %v78 = phi <8 x i32> [ splat (i32 2147483647), %lanes22 ], [ %v64, %serial.end30 ]
  %v79 = phi <8 x i32> [ splat (i32 2147483647), %lanes22 ], [ %v65, %serial.end30 ]
  %p80 = getelementptr i32, ptr %b5, i64 %i25
  br i1 %v84, label %past85, label %through86
past85:
  store <8 x i32> %v68, ptr %p80, align 32, !nontemporal !0
  %p88 = getelementptr i8, ptr %p80, i64 32
  store <8 x i32> %v69, ptr %p88, align 32, !nontemporal !0
  %p89 = getelementptr i8, ptr %p80, i64 64
  store <8 x i32> %v70, ptr %p89, align 32, !nontemporal !0
  %p90 = getelementptr i8, ptr %p80, i64 96
  store <8 x i32> %v71, ptr %p90, align 32, !nontemporal !0
  br label %stored87
through86:
  store <8 x i32> %v68, ptr %p80, align 4
  %p91 = getelementptr i8, ptr %p80, i64 32
  store <8 x i32> %v69, ptr %p91, align 4
  %p92 = getelementptr i8, ptr %p80, i64 64
  store <8 x i32> %v70, ptr %p92, align 4
  %p93 = getelementptr i8, ptr %p80, i64 96
  store <8 x i32> %v71, ptr %p93, align 4
  br label %stored87
stored87:
  %p94 = getelementptr i32, ptr %b7, i64 %i25
  br i1 %v98, label %past99, label %through100
past99:
  store <8 x i32> %v72, ptr %p94, align 32, !nontemporal !0
  %p102 = getelementptr i8, ptr %p94, i64 32
  store <8 x i32> %v73, ptr %p102, align 32, !nontemporal !0
  %p103 = getelementptr i8, ptr %p94, i64 64
  store <8 x i32> %v74, ptr %p103, align 32, !nontemporal !0
  %p104 = getelementptr i8, ptr %p94, i64 96
  store <8 x i32> %v75, ptr %p104, align 32, !nontemporal !0
  br label %stored101
through100:
  store <8 x i32> %v72, ptr %p94, align 4
  %p105 = getelementptr i8, ptr %p94, i64 32
  store <8 x i32> %v73, ptr %p105, align 4
  %p106 = getelementptr i8, ptr %p94, i64 64
  store <8 x i32> %v74, ptr %p106, align 4
  %p107 = getelementptr i8, ptr %p94, i64 96
  store <8 x i32> %v75, ptr %p107, align 4
  br label %stored101
stored101:
  %p108 = getelementptr i32, ptr %b9, i64 %i25
  br i1 %v112, label %past113, label %through114
past113:
  store <8 x i32> %v76, ptr %p108, align 32, !nontemporal !0
  %p116 = getelementptr i8, ptr %p108, i64 32
  store <8 x i32> %v77, ptr %p116, align 32, !nontemporal !0
  %p117 = getelementptr i8, ptr %p108, i64 64
  store <8 x i32> %v78, ptr %p117, align 32, !nontemporal !0
  %p118 = getelementptr i8, ptr %p108, i64 96
  store <8 x i32> %v79, ptr %p118, align 32, !nontemporal !0
  br label %stored115
through114:
  store <8 x i32> %v76, ptr %p108, align 4
  %p119 = getelementptr i8, ptr %p108, i64 32
  store <8 x i32> %v77, ptr %p119, align 4
  %p120 = getelementptr i8, ptr %p108, i64 64
  store <8 x i32> %v78, ptr %p120, align 4
  %p121 = getelementptr i8, ptr %p108, i64 96
  store <8 x i32> %v79, ptr %p121, align 4
  br label %stored115
stored115:
  %i122 = add nsw i64 %i25, 32
  %v123 = icmp slt i64 %i122, %v21
  br i1 %v123, label %lanes22, label %lanes.end23
lanes.end23:
  %v127 = icmp slt i64 %v21, %v124
  br i1 %v127, label %lanes125, label %lanes.end126
lanes125:
  %i128 = phi i64 [ %v21, %lanes.end23 ], [ %i162, %stored161 ]
  %p138 = getelementptr i32, ptr %b3, i64 %i128
  %v131 = icmp sgt i64 %v0, 0
  br i1 %v131, label %some129, label %none130
some129:
  br label %serial132
serial132:
  %i134 = phi i64 [ 0, %some129 ], [ %i145, %serial132 ]
  %c135 = phi <8 x i32> [ splat (i32 0), %some129 ], [ %v142, %serial132 ]
  %c136 = phi <8 x i32> [ splat (i32 -2147483648), %some129 ], [ %v143, %serial132 ]
  %c137 = phi <8 x i32> [ splat (i32 2147483647), %some129 ], [ %v144, %serial132 ]
  %v139 = mul nsw i64 %i134, %v2
  %p140 = getelementptr i32, ptr %p138, i64 %v139
  %v141 = load <8 x i32>, ptr %p140, align 4
  %v142 = add <8 x i32> %c135, %v141
  %v143 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c136, <8 x i32> %v141)
  %v144 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c137, <8 x i32> %v141)
  %i145 = add nsw i64 %i134, 1
  %v146 = icmp slt i64 %i145, %v0
  br i1 %v146, label %serial132, label %serial.end133
serial.end133:
  br label %none130
none130:
  %v147 = phi <8 x i32> [ splat (i32 0), %lanes125 ], [ %v142, %serial.end133 ]
  %v148 = phi <8 x i32> [ splat (i32 -2147483648), %lanes125 ], [ %v143, %serial.end133 ]
  %v149 = phi <8 x i32> [ splat (i32 2147483647), %lanes125 ], [ %v144, %serial.end133 ]
  %p150 = getelementptr i32, ptr %b5, i64 %i128
  br i1 %v84, label %past151, label %through152
past151:
  store <8 x i32> %v147, ptr %p150, align 32, !nontemporal !0
  br label %stored153
through152:
  store <8 x i32> %v147, ptr %p150, align 4
  br label %stored153
stored153:
  %p154 = getelementptr i32, ptr %b7, i64 %i128
  br i1 %v98, label %past155, label %through156
past155:
  store <8 x i32> %v148, ptr %p154, align 32, !nontemporal !0
  br label %stored157
through156:
  store <8 x i32> %v148, ptr %p154, align 4
  br label %stored157
stored157:
  %p158 = getelementptr i32, ptr %b9, i64 %i128
  br i1 %v112, label %past159, label %through160
past159:
  store <8 x i32> %v149, ptr %p158, align 32, !nontemporal !0
  br label %stored161
through160:
  store <8 x i32> %v149, ptr %p158, align 4
  br label %stored161
stored161:
  %i162 = add nsw i64 %i128, 8
  %v163 = icmp slt i64 %i162, %v124
  br i1 %v163, label %lanes125, label %lanes.end126
lanes.end126:
  %v166 = icmp slt i64 %v124, %v2
  br i1 %v166, label %tail164, label %tail.end165
tail164:
  %i167 = phi i64 [ %v124, %lanes.end126 ], [ %i202, %none175 ]
  %v168 = sub i64 %v2, %i167
  %v169 = call i64 @llvm.umin.i64(i64 %v168, i64 8)
  %v170 = trunc i64 %v169 to i16
  %v171 = insertelement <8 x i16> poison, i16 %v170, i64 0
  %v172 = shufflevector <8 x i16> %v171, <8 x i16> poison, <8 x i32> zeroinitializer
  %v173 = icmp ult <8 x i16> <i16 0, i16 1, i16 2, i16 3, i16 4, i16 5, i16 6, i16 7>, %v172
  %p183 = getelementptr i32, ptr %b3, i64 %i167
  %v176 = icmp sgt i64 %v0, 0
  br i1 %v176, label %some174, label %none175
some174:
  br label %serial177
serial177:
  %i179 = phi i64 [ 0, %some174 ], [ %i191, %serial177 ]
  %c180 = phi <8 x i32> [ splat (i32 0), %some174 ], [ %v188, %serial177 ]
  %c181 = phi <8 x i32> [ splat (i32 -2147483648), %some174 ], [ %v189, %serial177 ]
  %c182 = phi <8 x i32> [ splat (i32 2147483647), %some174 ], [ %v190, %serial177 ]
  %v184 = mul nsw i64 %i179, %v2
  %p185 = getelementptr i32, ptr %p183, i64 %v184
  %p186 = getelementptr i8, ptr %p185, i64 1024
  call void @llvm.prefetch.p0(ptr %p186, i32 0, i32 3, i32 1)
  %v187 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr align 4 %p185, <8 x i1> %v173, <8 x i32> zeroinitializer)
  %v188 = add <8 x i32> %c180, %v187
  %v189 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c181, <8 x i32> %v187)
  %v190 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c182, <8 x i32> %v187)
  %i191 = add nsw i64 %i179, 1
  %v192 = icmp slt i64 %i191, %v0
  br i1 %v192, label %serial177, label %serial.end178
serial.end178:
  br label %none175
none175:
  %v193 = phi <8 x i32> [ splat (i32 0), %tail164 ], [ %v188, %serial.end178 ]
  %v194 = phi <8 x i32> [ splat (i32 -2147483648), %tail164 ], [ %v189, %serial.end178 ]
  %v195 = phi <8 x i32> [ splat (i32 2147483647), %tail164 ], [ %v190, %serial.end178 ]
  %p196 = getelementptr i32, ptr %b5, i64 %i167
  %p197 = getelementptr i8, ptr %p196, i64 1024
  call void @llvm.prefetch.p0(ptr %p197, i32 1, i32 3, i32 1)
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v193, ptr align 4 %p196, <8 x i1> %v173)
  %p198 = getelementptr i32, ptr %b7, i64 %i167
  %p199 = getelementptr i8, ptr %p198, i64 1024
  call void @llvm.prefetch.p0(ptr %p199, i32 1, i32 3, i32 1)
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v194, ptr align 4 %p198, <8 x i1> %v173)
  %p200 = getelementptr i32, ptr %b9, i64 %i167
  %p201 = getelementptr i8, ptr %p200, i64 1024
  call void @llvm.prefetch.p0(ptr %p201, i32 1, i32 3, i32 1)
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v195, ptr align 4 %p200, <8 x i1> %v173)
  %i202 = add nsw i64 %i167, 8
  %v203 = icmp slt i64 %i202, %v2
  br i1 %v203, label %tail164, label %tail.end165
tail.end165:
  br label %none19
none19:
  %i204 = add nsw i64 %i17, 1
  %v205 = icmp slt i64 %i204, %end
  br i1 %v205, label %grid15, label %grid.end16
grid.end16:
  br label %done13
done13:
  br i1 %v11, label %fence206, label %fenced207
fence206:
  call void @llvm.x86.sse.sfence()
  br label %fenced207
fenced207:
  ret void
}
