declare <8 x i32> @llvm.smax.v8i32(<8 x i32>, <8 x i32>)
declare <8 x i32> @llvm.smin.v8i32(<8 x i32>, <8 x i32>)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare <8 x i32> @llvm.masked.load.v8i32.p0(ptr, <8 x i1>, <8 x i32>)
declare void @llvm.masked.store.v8i32.p0(<8 x i32>, ptr, <8 x i1>)
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
  %v19 = and i64 %v2, -32
  %v92 = and i64 %v2, -8
  %v12 = icmp slt i64 %begin, %end
  br i1 %v12, label %run10, label %done11
run10:
  br label %grid13
grid13:
  %i15 = phi i64 [ %begin, %run10 ], [ %i163, %none17 ]
  %v18 = icmp sgt i64 %v2, 0
  br i1 %v18, label %some16, label %none17
some16:
  %v22 = icmp slt i64 0, %v19
  br i1 %v22, label %lanes20, label %lanes.end21
lanes20:
  %i23 = phi i64 [ 0, %some16 ], [ %i90, %none25 ]
  %p42 = getelementptr i32, ptr %b3, i64 %i23
  %v26 = icmp sgt i64 %v0, 0
  br i1 %v26, label %some24, label %none25
some24:
  br label %serial27
serial27:
  %i29 = phi i64 [ 0, %some24 ], [ %i64, %serial27 ]
  %c30 = phi <8 x i32> [ splat (i32 0), %some24 ], [ %v52, %serial27 ]
  %c31 = phi <8 x i32> [ splat (i32 0), %some24 ], [ %v53, %serial27 ]
  %c32 = phi <8 x i32> [ splat (i32 0), %some24 ], [ %v54, %serial27 ]
  %c33 = phi <8 x i32> [ splat (i32 0), %some24 ], [ %v55, %serial27 ]
  %c34 = phi <8 x i32> [ splat (i32 -2147483648), %some24 ], [ %v56, %serial27 ]
  %c35 = phi <8 x i32> [ splat (i32 -2147483648), %some24 ], [ %v57, %serial27 ]
  %c36 = phi <8 x i32> [ splat (i32 -2147483648), %some24 ], [ %v58, %serial27 ]
  %c37 = phi <8 x i32> [ splat (i32 -2147483648), %some24 ], [ %v59, %serial27 ]
  %c38 = phi <8 x i32> [ splat (i32 2147483647), %some24 ], [ %v60, %serial27 ]
  %c39 = phi <8 x i32> [ splat (i32 2147483647), %some24 ], [ %v61, %serial27 ]
  %c40 = phi <8 x i32> [ splat (i32 2147483647), %some24 ], [ %v62, %serial27 ]
  %c41 = phi <8 x i32> [ splat (i32 2147483647), %some24 ], [ %v63, %serial27 ]
  %v43 = mul nsw i64 %i29, %v2
  %p44 = getelementptr i32, ptr %p42, i64 %v43
  %v45 = load <8 x i32>, ptr %p44, align 4
  %p46 = getelementptr i8, ptr %p44, i64 32
  %v47 = load <8 x i32>, ptr %p46, align 4
  %p48 = getelementptr i8, ptr %p44, i64 64
  %v49 = load <8 x i32>, ptr %p48, align 4
  %p50 = getelementptr i8, ptr %p44, i64 96
  %v51 = load <8 x i32>, ptr %p50, align 4
  %v52 = add <8 x i32> %c30, %v45
  %v53 = add <8 x i32> %c31, %v47
  %v54 = add <8 x i32> %c32, %v49
  %v55 = add <8 x i32> %c33, %v51
  %v56 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c34, <8 x i32> %v45)
  %v57 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c35, <8 x i32> %v47)
  %v58 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c36, <8 x i32> %v49)
  %v59 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c37, <8 x i32> %v51)
  %v60 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c38, <8 x i32> %v45)
  %v61 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c39, <8 x i32> %v47)
  %v62 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c40, <8 x i32> %v49)
  %v63 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c41, <8 x i32> %v51)
  %i64 = add nsw i64 %i29, 1
  %v65 = icmp slt i64 %i64, %v0
  br i1 %v65, label %serial27, label %serial.end28
serial.end28:
  br label %none25
none25:
  %v66 = phi <8 x i32> [ splat (i32 0), %lanes20 ], [ %v52, %serial.end28 ]
  %v67 = phi <8 x i32> [ splat (i32 0), %lanes20 ], [ %v53, %serial.end28 ]
  %v68 = phi <8 x i32> [ splat (i32 0), %lanes20 ], [ %v54, %serial.end28 ]
  %v69 = phi <8 x i32> [ splat (i32 0), %lanes20 ], [ %v55, %serial.end28 ]
  %v70 = phi <8 x i32> [ splat (i32 -2147483648), %lanes20 ], [ %v56, %serial.end28 ]
  %v71 = phi <8 x i32> [ splat (i32 -2147483648), %lanes20 ], [ %v57, %serial.end28 ]
  %v72 = phi <8 x i32> [ splat (i32 -2147483648), %lanes20 ], [ %v58, %serial.end28 ]
  %v73 = phi <8 x i32> [ splat (i32 -2147483648), %lanes20 ], [ %v59, %serial.end28 ]
  %v74 = phi <8 x i32> [ splat (i32 2147483647), %lanes20 ], [ %v60, %serial.end28 ]
  %v75 = phi <8 x i32> [ splat (i32 2147483647), %lanes20 ], [ %v61, %serial.end28 ]
  %v76 = phi <8 x i32> [ splat (i32 2147483647), %lanes20 ], [ %v62, %serial.end28 ]
  %v77 = phi <8 x i32> [ splat (i32 2147483647), %lanes20 ], [ %v63, %serial.end28 ]
  %p78 = getelementptr i32, ptr %b5, i64 %i23
  store <8 x i32> %v66, ptr %p78, align 4
  %p79 = getelementptr i8, ptr %p78, i64 32
  store <8 x i32> %v67, ptr %p79, align 4
  %p80 = getelementptr i8, ptr %p78, i64 64
  store <8 x i32> %v68, ptr %p80, align 4
  %p81 = getelementptr i8, ptr %p78, i64 96
  store <8 x i32> %v69, ptr %p81, align 4
  %p82 = getelementptr i32, ptr %b7, i64 %i23
  store <8 x i32> %v70, ptr %p82, align 4
  %p83 = getelementptr i8, ptr %p82, i64 32
  store <8 x i32> %v71, ptr %p83, align 4
  %p84 = getelementptr i8, ptr %p82, i64 64
  store <8 x i32> %v72, ptr %p84, align 4
  %p85 = getelementptr i8, ptr %p82, i64 96
  store <8 x i32> %v73, ptr %p85, align 4
  %p86 = getelementptr i32, ptr %b9, i64 %i23
  store <8 x i32> %v74, ptr %p86, align 4
  %p87 = getelementptr i8, ptr %p86, i64 32
  store <8 x i32> %v75, ptr %p87, align 4
  %p88 = getelementptr i8, ptr %p86, i64 64
  store <8 x i32> %v76, ptr %p88, align 4
  %p89 = getelementptr i8, ptr %p86, i64 96
  store <8 x i32> %v77, ptr %p89, align 4
  %i90 = add nsw i64 %i23, 32
  %v91 = icmp slt i64 %i90, %v19
  br i1 %v91, label %lanes20, label %lanes.end21
lanes.end21:
  %v95 = icmp slt i64 %v19, %v92
  br i1 %v95, label %lanes93, label %lanes.end94
lanes93:
  %i96 = phi i64 [ %v19, %lanes.end21 ], [ %i121, %none98 ]
  %p106 = getelementptr i32, ptr %b3, i64 %i96
  %v99 = icmp sgt i64 %v0, 0
  br i1 %v99, label %some97, label %none98
some97:
  br label %serial100
serial100:
  %i102 = phi i64 [ 0, %some97 ], [ %i113, %serial100 ]
  %c103 = phi <8 x i32> [ splat (i32 0), %some97 ], [ %v110, %serial100 ]
  %c104 = phi <8 x i32> [ splat (i32 -2147483648), %some97 ], [ %v111, %serial100 ]
  %c105 = phi <8 x i32> [ splat (i32 2147483647), %some97 ], [ %v112, %serial100 ]
  %v107 = mul nsw i64 %i102, %v2
  %p108 = getelementptr i32, ptr %p106, i64 %v107
  %v109 = load <8 x i32>, ptr %p108, align 4
  %v110 = add <8 x i32> %c103, %v109
  %v111 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c104, <8 x i32> %v109)
  %v112 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c105, <8 x i32> %v109)
  %i113 = add nsw i64 %i102, 1
  %v114 = icmp slt i64 %i113, %v0
  br i1 %v114, label %serial100, label %serial.end101
serial.end101:
  br label %none98
none98:
  %v115 = phi <8 x i32> [ splat (i32 0), %lanes93 ], [ %v110, %serial.end101 ]
  %v116 = phi <8 x i32> [ splat (i32 -2147483648), %lanes93 ], [ %v111, %serial.end101 ]
  %v117 = phi <8 x i32> [ splat (i32 2147483647), %lanes93 ], [ %v112, %serial.end101 ]
  %p118 = getelementptr i32, ptr %b5, i64 %i96
  store <8 x i32> %v115, ptr %p118, align 4
  %p119 = getelementptr i32, ptr %b7, i64 %i96
  store <8 x i32> %v116, ptr %p119, align 4
  %p120 = getelementptr i32, ptr %b9, i64 %i96
  store <8 x i32> %v117, ptr %p120, align 4
  %i121 = add nsw i64 %i96, 8
  %v122 = icmp slt i64 %i121, %v92
  br i1 %v122, label %lanes93, label %lanes.end94
lanes.end94:
  %v125 = icmp slt i64 %v92, %v2
  br i1 %v125, label %tail123, label %tail.end124
tail123:
  %i126 = phi i64 [ %v92, %lanes.end94 ], [ %i161, %none134 ]
  %v127 = sub i64 %v2, %i126
  %v128 = call i64 @llvm.umin.i64(i64 %v127, i64 8)
  %v129 = trunc i64 %v128 to i16
  %v130 = insertelement <8 x i16> poison, i16 %v129, i64 0
  %v131 = shufflevector <8 x i16> %v130, <8 x i16> poison, <8 x i32> zeroinitializer
  %v132 = icmp ult <8 x i16> <i16 0, i16 1, i16 2, i16 3, i16 4, i16 5, i16 6, i16 7>, %v131
  %p142 = getelementptr i32, ptr %b3, i64 %i126
  %v135 = icmp sgt i64 %v0, 0
  br i1 %v135, label %some133, label %none134
some133:
  br label %serial136
serial136:
  %i138 = phi i64 [ 0, %some133 ], [ %i150, %serial136 ]
  %c139 = phi <8 x i32> [ splat (i32 0), %some133 ], [ %v147, %serial136 ]
  %c140 = phi <8 x i32> [ splat (i32 -2147483648), %some133 ], [ %v148, %serial136 ]
  %c141 = phi <8 x i32> [ splat (i32 2147483647), %some133 ], [ %v149, %serial136 ]
  %v143 = mul nsw i64 %i138, %v2
  %p144 = getelementptr i32, ptr %p142, i64 %v143
  %p145 = getelementptr i8, ptr %p144, i64 1024
  call void @llvm.prefetch.p0(ptr %p145, i32 0, i32 3, i32 1)
  %v146 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr align 4 %p144, <8 x i1> %v132, <8 x i32> zeroinitializer)
  %v147 = add <8 x i32> %c139, %v146
  %v148 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %c140, <8 x i32> %v146)
  %v149 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %c141, <8 x i32> %v146)
  %i150 = add nsw i64 %i138, 1
  %v151 = icmp slt i64 %i150, %v0
  br i1 %v151, label %serial136, label %serial.end137
serial.end137:
  br label %none134
none134:
  %v152 = phi <8 x i32> [ splat (i32 0), %tail123 ], [ %v147, %serial.end137 ]
  %v153 = phi <8 x i32> [ splat (i32 -2147483648), %tail123 ], [ %v148, %serial.end137 ]
  %v154 = phi <8 x i32> [ splat (i32 2147483647), %tail123 ], [ %v149, %serial.end137 ]
  %p155 = getelementptr i32, ptr %b5, i64 %i126
  %p156 = getelementptr i8, ptr %p155, i64 1024
  call void @llvm.prefetch.p0(ptr %p156, i32 1, i32 3, i32 1)
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v152, ptr align 4 %p155, <8 x i1> %v132)
  %p157 = getelementptr i32, ptr %b7, i64 %i126
  %p158 = getelementptr i8, ptr %p157, i64 1024
  call void @llvm.prefetch.p0(ptr %p158, i32 1, i32 3, i32 1)
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v153, ptr align 4 %p157, <8 x i1> %v132)
  %p159 = getelementptr i32, ptr %b9, i64 %i126
  %p160 = getelementptr i8, ptr %p159, i64 1024
  call void @llvm.prefetch.p0(ptr %p160, i32 1, i32 3, i32 1)
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v154, ptr align 4 %p159, <8 x i1> %v132)
  %i161 = add nsw i64 %i126, 8
  %v162 = icmp slt i64 %i161, %v2
  br i1 %v162, label %tail123, label %tail.end124
tail.end124:
  br label %none17
none17:
  %i163 = add nsw i64 %i15, 1
  %v164 = icmp slt i64 %i163, %end
  br i1 %v164, label %grid13, label %grid.end14
grid.end14:
  br label %done11
done11:
  ret void
}
